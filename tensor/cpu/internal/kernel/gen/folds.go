package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// foldType is a type of elements that are folded, and of their results. Where the two
// types differ, kernels convert the elements as they read them.
type foldType struct {
	name     string // in the names of kernels, and the field that has them
	of       string // the results, as name has them
	elem     string // of results
	size     int
	float    bool
	from     string // of elements
	fromSize int
	ops      []string
}

var foldTypes = []foldType{
	{"F32", "F32", "float32", 4, true, "float32", 4, []string{"Add", "Max", "Min"}},
	{"F64", "F64", "float64", 8, true, "float64", 8, []string{"Add", "Mul", "Max", "Min"}},
	{"I32", "I32", "int32", 4, false, "int32", 4, []string{"Max", "Min"}},
	{"I64", "I64", "int64", 8, false, "int64", 8, []string{"Add", "Mul", "Max", "Min"}},
	{"U8", "U8", "uint8", 1, false, "uint8", 1, []string{"Max", "Min"}},
	{"BF16", "F32", "float32", 4, true, "uint16", 2, []string{"Add", "Max", "Min"}},
	{"F16", "F32", "float32", 4, true, "uint16", 2, []string{"Add", "Max", "Min"}},
	{"F32ToF64", "F64", "float64", 8, true, "float32", 4, []string{"Mul"}},
	{"I64ToF64", "F64", "float64", 8, true, "int64", 8, []string{"Add"}},
	{"I32ToI64", "I64", "int64", 8, false, "int32", 4, []string{"Add", "Mul"}},
	{"U8ToI64", "I64", "int64", 8, false, "uint8", 1, []string{"Add", "Mul"}},
}

// converts reports whether elements are converted.
func (t foldType) converts() bool { return t.name != t.of }

// least returns the shortest row that the kernel of op takes in set s.
func (t foldType) least(s isa, op string) int {
	if extreme := op == "Max" || op == "Min"; extreme && !t.float || t.converts() && !s.wide {
		return s.lanes * 4 / t.size
	}
	return 1
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

// partial reports whether the last vector of a row is filled up with numbers that change
// nothing. Extremes of integers take some elements twice instead.
func (f *folder) partial() bool { return f.t.float || f.op == "Add" || f.op == "Mul" }

// load reads the elements at m as a vector of numbers of the results.
func (f *folder) load(m Mem, v vreg) {
	switch f.t.name {
	case "BF16":
		VPMOVZXWD(m, v)
		VPSLLD(U8(16), v, v)
	case "F16":
		VCVTPH2PS(m, v)
	case "F32ToF64":
		VCVTPS2PD(m, v)
	case "I32ToI64":
		VPMOVSXDQ(m, v)
	case "U8ToI64":
		VPMOVZXBQ(m, v)
	case "I64ToF64":
		if f.wide {
			VCVTQQ2PD(m, v)
			return
		}
		// The lower half as the last bits of 2⁵², the upper one, with its sign turned, as
		// those of 2⁸⁴. One rounding is left, that of the sum.
		low := f.vec()
		VMOVUPS(m, v)
		VPBLENDD(U8(0xaa), f.c("two52"), v, low)
		VPSRLQ(U8(32), v, v)
		VPXOR(f.c("two84And63"), v, v)
		VSUBPD(f.c("two84And63And52"), v, v)
		VADDPD(low, v, v)
	default:
		VMOVUPS(m, v)
	}
}

// loadFirst reads the elements at m that k selects, zeros elsewhere, of a type that is
// converted.
func (f *folder) loadFirst(m Mem, k reg.OpmaskVirtual, v vreg) {
	switch f.t.name {
	case "BF16":
		VPMOVZXWD_Z(m, k, v)
		VPSLLD(U8(16), v, v)
	case "F16":
		VCVTPH2PS_Z(m, k, v)
	case "F32ToF64":
		VCVTPS2PD_Z(m, k, v)
	case "I32ToI64":
		VPMOVSXDQ_Z(m, k, v)
	case "U8ToI64":
		VPMOVZXBQ_Z(m, k, v)
	case "I64ToF64":
		VCVTQQ2PD_Z(m, k, v)
	}
}

// singles returns a set whose tails select as many lanes as they are given.
func (f *folder) singles() *kern {
	k := &kern{isa: f.isa}
	k.double = false
	return k
}

func (f *folder) vecBytes() int { return f.lanes * f.t.size }

// into sets acc to the fold of acc and x.
func (f *folder) into(x, acc vreg) {
	k := f.kern
	switch f.op + f.t.of {
	case "AddF32", "AddF64":
		k.of(VADDPS, VADDPD)(x, acc, acc)
	case "AddI64":
		VPADDQ(x, acc, acc)
	case "MulF64":
		VMULPD(x, acc, acc)
	case "MulI64":
		VMOVAPS(productOfIntegers(f.isa, x, acc), acc)
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
	}[f.op+f.t.of]
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
	if f.op == "Mul" && !f.t.float {
		return "integerOne"
	}
	return map[string]string{"Add": "zero", "Mul": "one", "Max": "minusInf", "Min": "inf"}[f.op]
}

// rows writes the kernel that folds every row into one element. A row of a partial fold
// has an element at least, another as many as a vector, as has one of AVX2 whose elements
// are converted. Sums add up in the order of the kernels of one row, but for these.
func (f *folder) rows() {
	f.text(strings.ToLower(f.op)+"Rows"+f.t.name, fmt.Sprintf("rows int, n int, x *%s, stride int, dst *%s", f.t.from, f.t.elem),
		fmt.Sprintf("folds each of rows > 0 rows of n elements, stride bytes apart, into an element of dst by %s.", strings.ToLower(f.op)))
	rows, n := Load(Param("rows"), GP64()), Load(Param("n"), GP64())
	x, stride := Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	dst := Load(Param("dst"), GP64())
	const unroll = 4
	var acc [unroll]vreg
	for u := range acc {
		acc[u] = f.vec()
	}
	var start vreg
	// the last vector has some elements that were folded before, which changes nothing
	lastOf := func(p, left reg.Register, v vreg) {
		VMOVUPS(Mem{Base: p, Index: left, Scale: uint8(f.t.size), Disp: -f.vecBytes()}, v)
	}
	if f.partial() {
		start = f.mut(f.start())
		lastOf = f.lastOfRow(n, start)
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
			f.load(Mem{Base: p, Disp: u * f.lanes * f.t.fromSize}, v)
			f.into(v, acc[u])
		}
		ADDQ(U32(vectors*f.lanes*f.t.fromSize), p)
		SUBQ(U32(vectors*f.lanes), left)
		JMP(LabelRef(loop))
		Label(next)
	}
	TESTQ(left, left)
	JZ(LabelRef("done"))
	v := f.vec()
	lastOf(p, left, v)
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

// lastOfRow prepares for the elements of a row of n that are left after whole vectors. It
// returns a function that reads those at p into v and fills v up with numbers of start.
func (f *folder) lastOfRow(n reg.Register, start vreg) func(p, left reg.Register, v vreg) {
	lanes := GP64()
	MOVQ(n, lanes)
	ANDQ(U8(f.lanes-1), lanes)
	if f.t.converts() && !f.wide {
		NEGQ(lanes)
		ADDQ(U8(f.lanes), lanes)
		before := f.newTail(lanes, 1) // lanes of a whole vector that were folded before
		return func(p, left reg.Register, v vreg) {
			f.load(Mem{Base: p, Index: left, Scale: uint8(f.t.fromSize), Disp: -f.lanes * f.t.fromSize}, v)
			VMOVAPS(f.sel(before.mask(), start, v), v)
		}
	}
	// a tail selects float64 as two of float32, unless elements are converted
	single := f.singles()
	var last tail
	if f.t.converts() {
		last = single.newTail(lanes, 1)
	} else {
		last = f.newTail(lanes, 1)
	}
	return func(p, _ reg.Register, v vreg) {
		sel := single.sel
		if f.t.converts() {
			sel = f.sel
			f.loadFirst(Mem{Base: p}, last.k[0], v)
		} else {
			last.load(0, Mem{Base: p}, v)
		}
		if f.op != "Add" {
			VMOVAPS(sel(last.mask(), v, start), v)
		}
	}
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
// row to the last. For bytes, and for elements that AVX2 converts, the kernel takes whole
// vectors only.
func (f *folder) columns() {
	f.text(strings.ToLower(f.op)+"Columns"+f.t.name, fmt.Sprintf("rows int, n int, x *%s, stride int, dst *%s, more int", f.t.from, f.t.elem),
		fmt.Sprintf("folds rows > 0 rows of n > 0 elements, stride bytes apart, into one by %s. If more is not 0, the first is dst.", strings.ToLower(f.op)))
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	x, stride := Load(Param("x"), GP64()), Load(Param("stride"), GP64())
	dst, more := Load(Param("dst"), GP64()), Load(Param("more"), GP64())
	p, count := GP64(), GP64()
	// down folds the vectors at x; load reads one of them, and loadResult one of dst.
	down := func(label string, vectors int, load, loadResult func(m Mem, v vreg), store func(v vreg, m Mem)) {
		acc := make([]vreg, vectors)
		for u := range acc {
			acc[u] = f.vec()
		}
		MOVQ(x, p)
		Load(Param("rows"), count)
		TESTQ(more, more)
		JZ(LabelRef(label + "First"))
		for u := range acc {
			loadResult(Mem{Base: dst, Disp: u * f.vecBytes()}, acc[u])
		}
		JMP(LabelRef(label + "Each"))
		Label(label + "First")
		for u := range acc {
			load(Mem{Base: p, Disp: u * f.lanes * f.t.fromSize}, acc[u])
		}
		ADDQ(stride, p)
		DECQ(count)
		JZ(LabelRef(label + "Store"))
		Label(label + "Each")
		for u := range acc {
			v := f.vec()
			load(Mem{Base: p, Disp: u * f.lanes * f.t.fromSize}, v)
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
		down(label, vectors, f.load, whole, func(v vreg, m Mem) { VMOVUPS(v, m) })
		ADDQ(U32(vectors*f.lanes*f.t.fromSize), x)
		ADDQ(U32(vectors*f.vecBytes()), dst)
		SUBQ(U32(vectors*f.lanes), n)
		JMP(LabelRef(label))
		Label(label + "End")
	}
	if f.unit() == 1 {
		TESTQ(n, n)
		JZ(LabelRef("done"))
		var elements tail
		if f.t.converts() {
			lanes := GP64()
			MOVQ(n, lanes)
			elements = f.singles().newTail(lanes, 1)
		}
		last := f.newTail(n, 1)
		result := func(m Mem, v vreg) { last.load(0, m, v) }
		load := result
		if f.t.converts() {
			load = func(m Mem, v vreg) { f.loadFirst(m, elements.k[0], v) }
		}
		down("last", 1, load, result, func(v vreg, m Mem) { last.store(0, v, m) })
		Label("done")
	}
	f.ret()
}

// unit returns what the columns that a kernel takes are a multiple of.
func (f *folder) unit() int {
	if f.t.size == 1 || f.t.converts() && !f.wide {
		return f.lanes
	}
	return 1
}

// setFolds writes the function that sets the folds to the kernels of s.
func (s isa) setFolds(b *strings.Builder) {
	fmt.Fprintf(b, "\n// folds%s sets the folds that have %s assembly.\n", s.name, s.name)
	fmt.Fprintf(b, "func folds%s(f *Folds) {\n", s.name)
	for _, t := range foldTypes {
		for _, op := range t.ops {
			unit := (&folder{kern: &kern{isa: isa{lanes: s.lanes * 4 / t.size, wide: s.wide}}, t: t, op: op}).unit()
			name := strings.ToLower(op)
			fmt.Fprintf(b, "f.%[1]s.%[2]s = f.%[1]s.%[2]s.by(%[7]d, %[3]d, %[4]d, %[5]sRows%[1]s%[6]s, %[5]sColumns%[1]s%[6]s)\n", t.name, op, t.least(s, op), unit, name, s.name, t.fromSize)
		}
	}
	d := s.doubles()
	fmt.Fprintf(b, "f.LongProduct = longProductBy(%d, longProduct%s)\n}\n", longVectors*d.lanes, d.name)
}
