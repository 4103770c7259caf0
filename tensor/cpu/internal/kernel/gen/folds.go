package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// foldType is a type of elements that are folded, with its operations.
type foldType struct {
	name, elem string
	size       int
	float      bool
	ops        []string
}

var foldTypes = []foldType{
	{"F32", "float32", 4, true, []string{"Add", "Max", "Min"}},
	{"F64", "float64", 8, true, []string{"Add", "Mul", "Max", "Min"}},
	{"I32", "int32", 4, false, []string{"Max", "Min"}},
	{"I64", "int64", 8, false, []string{"Add", "Max", "Min"}},
	{"U8", "uint8", 1, false, []string{"Max", "Min"}},
}

// folder writes the kernels that fold elements of one type by one operation.
type folder struct {
	*kern
	t  foldType
	op string
}

// folds writes the kernels that fold rows of elements into one each, and rows into one
// row.
func folds(s isa) {
	for _, t := range foldTypes {
		for _, op := range t.ops {
			k := &kern{isa: isa{name: s.name, lanes: s.lanes * 4 / t.size, wide: s.wide, double: t.size == 8}}
			f := &folder{k, t, op}
			f.rows()
			f.columns()
		}
	}
}

// partial reports whether a fold takes the first lanes of a vector, beside numbers that
// change nothing. Extremes of integers take elements twice instead.
func (f *folder) partial() bool { return f.t.float || f.op == "Add" }

func (f *folder) vecBytes() int { return f.lanes * f.t.size }

// into sets acc to the fold of acc and x.
func (f *folder) into(x, acc vreg) {
	k := f.kern
	switch f.op + f.t.name {
	case "AddF32", "AddF64":
		k.of(VADDPS, VADDPD)(x, acc, acc)
	case "AddI64":
		VPADDQ(x, acc, acc)
	case "MulF64":
		VMULPD(x, acc, acc)
	case "MaxF32", "MaxF64":
		VMOVAPS(k.extreme(k.of(VMAXPS, VMAXPD), acc, x), acc)
	case "MinF32", "MinF64":
		VMOVAPS(k.extreme(k.of(VMINPS, VMINPD), acc, x), acc)
	default:
		f.extremeInts(x, acc, acc)
	}
}

// extremeInts sets dst to the larger or the smaller of a and b, which are registers of
// one width.
func (f *folder) extremeInts(a, b, dst Op) {
	ins := map[string]func(ops ...Op){
		"MaxI32": VPMAXSD, "MinI32": VPMINSD, "MaxU8": VPMAXUB, "MinU8": VPMINUB, "MaxI64": VPMAXSQ, "MinI64": VPMINSQ,
	}[f.op+f.t.name]
	if f.t.size != 8 || f.wide {
		ins(a, b, dst)
		return
	}
	var larger Op = YMM()
	if a.(reg.Register).Size() == 16 {
		larger = XMM()
	}
	VPCMPGTQ(a, b, larger) // b > a
	if f.op == "Min" {
		a, b = b, a
	}
	VBLENDVPD(larger, b, a, dst)
}

// start returns a vector with which a partial fold begins.
func (f *folder) start() string {
	return map[string]string{"Add": "zero", "Mul": "one", "Max": "minusInf", "Min": "inf"}[f.op]
}

// rows writes the kernel that folds every row into one element. A row of a partial fold
// has an element at least, another as many as a vector. Sums add up in the order of the
// kernels of one row.
func (f *folder) rows() {
	f.text(strings.ToLower(f.op)+"Rows"+f.t.name, fmt.Sprintf("rows int, n int, x *%[1]s, stride int, dst *%[1]s", f.t.elem),
		fmt.Sprintf("folds each of rows > 0 rows of n elements, stride bytes apart, into an element of dst by %s.", strings.ToLower(f.op)))
	rows, n := Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	x, stride := Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	dst := Load(Param("dst"), GP64())
	const unroll = 4
	var acc [unroll]vreg
	for u := range acc {
		acc[u] = f.vec()
	}
	var last tail
	var start vreg
	if f.partial() {
		lanes := GP64()
		MOVQ(n, lanes)
		ANDQ(U8(f.lanes-1), lanes)
		last = f.newTail(lanes, 1)
		start = f.mut(f.start())
	}
	p, left := GP64(), GP64()
	Label("row")
	MOVQ(x, p)
	MOVQ(n, left)
	if f.partial() {
		for _, a := range acc {
			VMOVAPS(start, a)
		}
	} else {
		for _, a := range acc {
			VMOVUPS(Mem{Base: p}, a)
		}
	}
	for _, vectors := range []int{unroll, 1} {
		loop, next := fmt.Sprint("by", vectors), fmt.Sprint("by", vectors, "end")
		Label(loop)
		CMPQ(left, U32(vectors*f.lanes))
		JL(LabelRef(next))
		for u := range vectors {
			v := f.vec()
			VMOVUPS(Mem{Base: p, Disp: u * f.vecBytes()}, v)
			f.into(v, acc[u])
		}
		ADDQ(U32(vectors*f.vecBytes()), p)
		SUBQ(U32(vectors*f.lanes), left)
		JMP(LabelRef(loop))
		Label(next)
	}
	TESTQ(left, left)
	JZ(LabelRef("done"))
	v := f.vec()
	if f.partial() {
		last.load(0, Mem{Base: p}, v)
		if f.op != "Add" {
			single := &kern{isa: f.isa} // a tail selects float64 as two of float32
			single.double = false
			v = single.sel(last.mask(), v, start)
		}
	} else { // elements that were folded before change nothing
		VMOVUPS(Mem{Base: p, Index: left, Scale: uint8(f.t.size), Disp: -f.vecBytes()}, v)
	}
	f.into(v, acc[0])
	Label("done")
	f.into(acc[1], acc[0])
	f.into(acc[3], acc[2])
	f.into(acc[2], acc[0])
	f.store(acc[0], Mem{Base: dst})
	ADDQ(U8(f.t.size), dst)
	ADDQ(stride, x)
	DECQ(rows)
	JNZ(LabelRef("row"))
	f.ret()
}

// store folds the lanes of v and stores the result.
func (f *folder) store(v vreg, m Mem) {
	if f.partial() {
		v = f.fold(v, func(a, b vreg) vreg {
			a = f.copy(a)
			f.into(b, a)
			return a
		})
		f.of(VMOVSS, VMOVSD)(v.AsX(), m)
		return
	}
	y, x, t := v.AsY(), v.AsX(), XMM()
	if f.wide {
		h := YMM()
		VEXTRACTI64X4(U8(1), v, h)
		f.extremeInts(h, y, y)
	}
	VEXTRACTI128(U8(1), y, t)
	f.extremeInts(t, x, x)
	for by := 8; by >= f.t.size; by /= 2 {
		t := XMM()
		VPSRLDQ(U8(by), x, t)
		f.extremeInts(t, x, x)
	}
	switch f.t.size {
	case 1:
		VPEXTRB(U8(0), x, m)
	case 4:
		VMOVD(x, m)
	default:
		VMOVQ(x, m)
	}
}

// columns writes the kernel that folds rows under one another, each column from the first
// row to the last. Of bytes it takes whole vectors only.
func (f *folder) columns() {
	f.text(strings.ToLower(f.op)+"Columns"+f.t.name, fmt.Sprintf("rows int, n int, x *%[1]s, stride int, dst *%[1]s, more int", f.t.elem),
		fmt.Sprintf("folds rows > 0 rows of n > 0 elements, stride bytes apart, into one by %s. If more is not 0, the first is dst.", strings.ToLower(f.op)))
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	x, stride := Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	dst, more := Load(Param("dst"), GP64()), Load(Param("more"), GP64())
	p, count := GP64(), GP64()
	// down folds the vectors at x; load reads one of them.
	down := func(label string, vectors int, load func(m Mem, v vreg), store func(v vreg, m Mem)) {
		acc := make([]vreg, vectors)
		first := func(base reg.Register) {
			for u := range acc {
				load(Mem{Base: base, Disp: u * f.vecBytes()}, acc[u])
			}
		}
		for u := range acc {
			acc[u] = f.vec()
		}
		MOVQ(x, p)
		Load(Param("rows"), count)
		TESTQ(more, more)
		JZ(LabelRef(label + "First"))
		first(dst)
		JMP(LabelRef(label + "Each"))
		Label(label + "First")
		first(p)
		ADDQ(stride, p)
		DECQ(count)
		JZ(LabelRef(label + "Store"))
		Label(label + "Each")
		for u := range acc {
			v := f.vec()
			load(Mem{Base: p, Disp: u * f.vecBytes()}, v)
			f.into(v, acc[u])
		}
		ADDQ(stride, p)
		DECQ(count)
		JNZ(LabelRef(label + "Each"))
		Label(label + "Store")
		for u := range acc {
			store(acc[u], Mem{Base: dst, Disp: u * f.vecBytes()})
		}
	}
	whole := func(m Mem, v vreg) { VMOVUPS(m, v) }
	for _, vectors := range []int{8, 1} {
		label := fmt.Sprint("by", vectors)
		Label(label)
		CMPQ(n, U32(vectors*f.lanes))
		JL(LabelRef(label + "End"))
		down(label, vectors, whole, func(v vreg, m Mem) { VMOVUPS(v, m) })
		ADDQ(U32(vectors*f.vecBytes()), x)
		ADDQ(U32(vectors*f.vecBytes()), dst)
		SUBQ(U32(vectors*f.lanes), n)
		JMP(LabelRef(label))
		Label(label + "End")
	}
	if f.t.size > 1 {
		TESTQ(n, n)
		JZ(LabelRef("done"))
		last := f.newTail(n, 1)
		down("last", 1, func(m Mem, v vreg) { last.load(0, m, v) }, func(v vreg, m Mem) { last.store(0, v, m) })
		Label("done")
	}
	f.ret()
}

// setFolds writes the function that sets the folds to the kernels of s.
func (s isa) setFolds(b *strings.Builder) {
	fmt.Fprintf(b, "\n// folds%s sets the folds that have %s assembly.\n", s.name, s.name)
	fmt.Fprintf(b, "func folds%s(f *Folds) {\n", s.name)
	for _, t := range foldTypes {
		for _, op := range t.ops {
			least := 1
			if !t.float && op != "Add" {
				least = s.lanes * 4 / t.size
			}
			unit := 1
			if t.size == 1 {
				unit = least
			}
			name := strings.ToLower(op)
			fmt.Fprintf(b, "f.%[1]s.%[2]s = f.%[1]s.%[2]s.by(%[7]d, %[3]d, %[4]d, %[5]sRows%[1]s%[6]s, %[5]sColumns%[1]s%[6]s)\n", t.name, op, least, unit, name, s.name, t.size)
		}
	}
	d := s.doubles()
	fmt.Fprintf(b, "f.LongProduct = longProductBy(%d, longProduct%s)\n}\n", longVectors*d.lanes, d.name)
}
