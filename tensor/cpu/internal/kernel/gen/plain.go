package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// numberType is a type of the numbers that plain kernels take.
type numberType struct {
	name   string // in the names of kernels
	elem   string // in Go
	size   int
	float  bool
	signed bool // of integers
}

var (
	typeU8   = numberType{name: "U8", elem: "uint8", size: 1}
	typeHalf = numberType{name: "Half", elem: "uint16", size: 2}
	typeI32  = numberType{name: "I32", elem: "int32", size: 4, signed: true}
	typeI64  = numberType{name: "I64", elem: "int64", size: 8, signed: true}
	typeF32  = numberType{name: "F32", elem: "float32", size: 4, float: true}
	typeF64  = numberType{name: "F64", elem: "float64", size: 8, float: true}
)

// plainKernel is a kernel of the table Plain: the field that has it, and how many numbers
// it computes at a time.
type plainKernel struct {
	name, field, goName string
	wrapper             string // the function of Go that cuts slices for it
	group               int
}

// plainKernels are the kernels of one instruction set, in order.
var plainKernels []plainKernel

// plain writes the kernels of integers and bytes, comparisons and conversions. Their n is
// a multiple of the numbers that they compute at a time: Go does the rest.
func plain(s isa) {
	plainKernels = nil
	p := plainSet{s}
	p.bits()
	for _, t := range []numberType{typeU8, typeI32, typeI64} {
		p.arithmetic(t)
	}
	for _, t := range []numberType{typeU8, typeI32, typeI64, typeF32, typeF64} {
		p.comparisons(t)
	}
	for _, t := range []numberType{typeU8, typeHalf, typeI32, typeI64, typeF32, typeF64} {
		p.truths(t)
	}
	p.toBytes()
	p.fromBytes()
	p.betweenIntegers()
}

// plainSet writes the kernels for one instruction set.
type plainSet struct{ isa }

// width returns the size of a vector in bytes.
func (p plainSet) width() int {
	if p.wide {
		return 64
	}
	return 32
}

// kernel writes a kernel over group numbers at a time, of which body computes those at
// dst from those at a and, for a pair, b.
func (p plainSet) kernel(name, field, goName, doc string, to, from numberType, pair bool, group int, body func(dst, a, b Mem)) {
	wrapper := "convertBy"
	if pair {
		wrapper = "pairBy"
	}
	plainKernels = append(plainKernels, plainKernel{name, field, goName, wrapper, group})
	args := fmt.Sprintf("n int, dst *%s, a *%s", to.elem, from.elem)
	if pair {
		args = fmt.Sprintf("n int, dst *%s, a, b *%s", to.elem, from.elem)
	}
	p.text(name, args, fmt.Sprintf("is %s for 0 <= i < n, a multiple of %d.", doc, group))
	p.rounds(to, from, pair, group, body)
	p.ret()
}

// rounds writes the loop of a kernel: several groups at a time, then one.
func (p plainSet) rounds(to, from numberType, pair bool, group int, body func(dst, a, b Mem)) {
	n, dst, a, b := GP64(), GP64(), GP64(), GP64()
	Load(Param("n"), n)
	Load(Param("dst"), dst)
	Load(Param("a"), a)
	if pair {
		Load(Param("b"), b)
	}
	most := 4
	if !p.wide {
		most = 2
	}
	for _, many := range []int{most, 1} {
		loop, done := fmt.Sprintf("by%d", many), fmt.Sprintf("by%ddone", many)
		Label(loop)
		CMPQ(n, U32(uint32(many*group)))
		JL(LabelRef(done))
		for i := range many {
			in := i * group * from.size
			body(Mem{Base: dst, Disp: i * group * to.size}, Mem{Base: a, Disp: in}, Mem{Base: b, Disp: in})
		}
		ADDQ(U32(uint32(many*group*to.size)), dst)
		ADDQ(U32(uint32(many*group*from.size)), a)
		if pair {
			ADDQ(U32(uint32(many*group*from.size)), b)
		}
		SUBQ(U32(uint32(many*group)), n)
		JMP(LabelRef(loop))
		Label(done)
	}
}

// load returns the vector at m.
func (p plainSet) load(m Mem) vreg {
	v := p.vec()
	VMOVUPS(m, v)
	return v
}

func (p plainSet) op(ins func(ops ...Op), ops ...Op) vreg {
	v := p.vec()
	ins(append(ops, v)...)
	return v
}

func (p plainSet) and(a Op, b vreg) vreg { return p.op(VANDPS, a, b) }

// bits writes the operations on the bits of bytes.
func (p plainSet) bits() {
	for _, o := range []struct {
		name, sign string
		ins        func(ops ...Op)
	}{{"And", "&", VANDPS}, {"Or", "|", VORPS}, {"Xor", "^", VXORPS}} {
		p.kernel("bits"+o.name, o.name, "bits"+o.name+"Go", "dst[i] = a[i] "+o.sign+" b[i]", typeU8, typeU8, true, p.width(), func(dst, a, b Mem) {
			v := p.load(a)
			o.ins(b, v, v)
			VMOVUPS(v, dst)
		})
	}
	p.kernel("bitsNot", "Not", "bitsNotGo", "dst[i] = a[i] ^ 1", typeU8, typeU8, false, p.width(), func(dst, a, _ Mem) {
		v := p.load(a)
		VXORPS(at("byteOne"), v, v)
		VMOVUPS(v, dst)
	})
}

// arithmetic writes add, sub, mul, max and min of integers.
func (p plainSet) arithmetic(t numberType) {
	for _, o := range []struct {
		name, doc string
		f         func(a, b vreg) vreg
	}{
		{"Add", "a[i] + b[i]", func(a, b vreg) vreg { return p.op(map[int]func(...Op){1: VPADDB, 4: VPADDD, 8: VPADDQ}[t.size], b, a) }},
		{"Sub", "a[i] - b[i]", func(a, b vreg) vreg { return p.op(map[int]func(...Op){1: VPSUBB, 4: VPSUBD, 8: VPSUBQ}[t.size], b, a) }},
		{"Mul", "a[i] * b[i]", func(a, b vreg) vreg { return p.mul(t, a, b) }},
		{"Max", "max(a[i], b[i])", func(a, b vreg) vreg { return p.extreme(t, true, a, b) }},
		{"Min", "min(a[i], b[i])", func(a, b vreg) vreg { return p.extreme(t, false, a, b) }},
	} {
		name := strings.ToLower(o.name)
		p.kernel(name+t.name, t.name+"."+o.name, fmt.Sprintf("%sGo[%s]", name, t.elem), "dst[i] = "+o.doc, t, t, true, p.width()/t.size, func(dst, a, b Mem) {
			VMOVUPS(o.f(p.load(a), p.load(b)), dst)
		})
	}
	p.unary(t)
	p.withScalar(t)
	p.clamp(t)
}

// withScalar writes operations of numbers and one number.
func (p plainSet) withScalar(t numberType) {
	group := p.width() / t.size
	for _, o := range []struct {
		name, doc string
		f         func(a, s vreg) vreg
	}{
		{"AddS", "a[i] + *s", func(a, s vreg) vreg { return p.op(map[int]func(...Op){1: VPADDB, 4: VPADDD, 8: VPADDQ}[t.size], s, a) }},
		{"RSubS", "*s - a[i]", func(a, s vreg) vreg { return p.op(map[int]func(...Op){1: VPSUBB, 4: VPSUBD, 8: VPSUBQ}[t.size], a, s) }},
		{"MulS", "a[i] * *s", func(a, s vreg) vreg { return p.mul(t, a, s) }},
		{"MaxS", "max(a[i], *s)", func(a, s vreg) vreg { return p.extreme(t, true, a, s) }},
		{"MinS", "min(a[i], *s)", func(a, s vreg) vreg { return p.extreme(t, false, a, s) }},
	} {
		name := map[string]string{"AddS": "addS", "RSubS": "rsubS", "MulS": "mulS", "MaxS": "maxS", "MinS": "minS"}[o.name]
		plainKernels = append(plainKernels, plainKernel{name + t.name, t.name + "." + o.name, fmt.Sprintf("%sGo[%s]", name, t.elem), "scalarBy", group})
		p.text(name+t.name, fmt.Sprintf("n int, dst *%[1]s, a *%[1]s, s *%[1]s", t.elem),
			fmt.Sprintf("is dst[i] = %s for 0 <= i < n, a multiple of %d.", o.doc, group))
		s := p.spread(t, "s")
		p.rounds(t, t, false, group, func(dst, a, _ Mem) { VMOVUPS(o.f(p.load(a), s), dst) })
		p.ret()
	}
}

// spread returns a vector of the number that argument arg points to.
func (p plainSet) spread(t numberType, arg string) vreg {
	v := p.vec()
	map[int]func(...Op){1: VPBROADCASTB, 4: VPBROADCASTD, 8: VPBROADCASTQ}[t.size](Mem{Base: Load(Param(arg), GP64())}, v)
	return v
}

// unary writes neg, abs, relu and sign of integers.
func (p plainSet) unary(t numberType) {
	neg := func(x vreg) vreg {
		return p.op(map[int]func(...Op){1: VPSUBB, 4: VPSUBD, 8: VPSUBQ}[t.size], x, p.zero())
	}
	for _, o := range []struct {
		name, doc string
		f         func(x vreg) vreg
	}{
		{"Neg", "-a[i]", neg},
		{"Abs", "|a[i]|", func(x vreg) vreg {
			if !t.signed {
				return x
			}
			return p.extreme(t, true, x, neg(x))
		}},
		{"ReLU", "max(a[i], 0)", func(x vreg) vreg {
			if !t.signed {
				return x
			}
			return p.extreme(t, true, x, p.zero())
		}},
		{"Sign", "-1, 0 or 1", func(x vreg) vreg {
			if t.signed {
				x = p.extreme(t, true, x, p.load(at("lanes"))) // -1
			}
			return p.extreme(t, false, x, p.load(at(map[int]string{1: "byteOne", 4: "integerOne", 8: "integerOne64"}[t.size])))
		}},
	} {
		name := strings.ToLower(o.name)
		p.kernel(name+t.name, t.name+"."+o.name, fmt.Sprintf("%sIntsGo[%s]", name, t.elem), "dst[i] = "+o.doc, t, t, false, p.width()/t.size, func(dst, a, _ Mem) {
			VMOVUPS(o.f(p.load(a)), dst)
		})
	}
}

// clamp writes the kernel of the numbers between two bounds.
func (p plainSet) clamp(t numberType) {
	group := p.width() / t.size
	plainKernels = append(plainKernels, plainKernel{"clamp" + t.name, t.name + ".Clamp", fmt.Sprintf("clampGo[%s]", t.elem), "clampBy", group})
	p.text("clamp"+t.name, fmt.Sprintf("n int, dst *%[1]s, a *%[1]s, lo *%[1]s, hi *%[1]s", t.elem),
		fmt.Sprintf("is dst[i] = min(max(a[i], *lo), *hi) for 0 <= i < n, a multiple of %d.", group))
	lo, hi := p.spread(t, "lo"), p.spread(t, "hi")
	p.rounds(t, t, false, group, func(dst, a, _ Mem) {
		VMOVUPS(p.extreme(t, false, p.extreme(t, true, p.load(a), lo), hi), dst)
	})
	p.ret()
}

// mul returns the lower halves of products.
func (p plainSet) mul(t numberType, a, b vreg) vreg {
	switch t.size {
	case 4:
		return productOfIntegers(p.isa, a, b)
	case 8:
		return productOfIntegers(p.doubles(), a, b)
	}
	// The even bytes, then the odd ones, as words.
	even := p.op(VPMULLW, b, a)
	odd, other := p.vec(), p.vec()
	VPSRLW(U8(8), a, odd)
	VPSRLW(U8(8), b, other)
	VPMULLW(other, odd, odd)
	VPSLLW(U8(8), odd, odd)
	return p.op(VORPS, odd, p.and(at("lowByte"), even))
}

// extreme returns the larger or the smaller numbers.
func (p plainSet) extreme(t numberType, larger bool, a, b vreg) vreg {
	ins := map[bool]map[int]func(...Op){
		true: {1: VPMAXUB, 4: VPMAXSD, 8: VPMAXSQ}, false: {1: VPMINUB, 4: VPMINSD, 8: VPMINSQ},
	}[larger][t.size]
	if t.size < 8 || p.wide {
		return p.op(ins, b, a)
	}
	above := p.op(VPCMPGTQ, b, a) // a > b
	v := p.vec()
	if larger {
		VPBLENDVB(above, a, b, v)
	} else {
		VPBLENDVB(above, b, a, v)
	}
	return v
}

// plainTable writes the function that sets the kernels of Plain.
func (s isa) plainTable(b *strings.Builder) {
	fmt.Fprintf(b, "\n// setPlain%s sets the kernels of p that have %s assembly.\n", s.name, s.name)
	fmt.Fprintf(b, "func setPlain%s(p *Plain) {\n", s.name)
	for _, k := range plainKernels {
		fmt.Fprintf(b, "p.%s = %s(%d, %s%s, %s)\n", k.field, k.wrapper, k.group, k.name, s.name, k.goName)
	}
	b.WriteString("}\n")
}
