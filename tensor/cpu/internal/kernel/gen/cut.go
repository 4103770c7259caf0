package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// cuts writes the conversions of floats to integers.
func cuts(s isa) {
	for _, t := range []isa{s, s.doubles()} {
		t.cut("toI32", "int32", 4)
		t.cut("toI64", "int64", 8)
	}
}

// cut writes a conversion by the instruction that makes integers of 32 bits. It ends
// before a vector with numbers that they can't hold.
func (s isa) cut(name, to string, size int) {
	s.text(name, fmt.Sprintf("n int, dst *%s, x *%s", to, s.elem()),
		fmt.Sprintf("is dst[i] = x[i] cut toward zero, for n vectors of %d. It ends before a vector with a number of 2³¹ or more, or NaN, and returns how many vectors are left.", s.lanes), "left int")
	k := &kern{isa: s}
	n, dst, x := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	Label("vector")
	v := k.vec()
	VMOVUPS(Mem{Base: x}, v)
	s.branchUnlessAll(k.cmp(lessThan, k.and(k.c("abs"), v), k.c("two31")), "end")
	words := s.truncated(v)
	switch {
	case size == 4:
		VMOVUPS(words, Mem{Base: dst})
	case s.double:
		wide := k.vec()
		VPMOVSXDQ(words, wide)
		VMOVUPS(wide, Mem{Base: dst})
	default:
		lo, hi := k.vec(), k.vec()
		VPMOVSXDQ(lowerHalf(words, s.wide), lo)
		VPMOVSXDQ(upperHalf(words, s.wide), hi)
		VMOVUPS(lo, Mem{Base: dst})
		VMOVUPS(hi, Mem{Base: dst, Disp: s.bytes()})
	}
	ADDQ(U32(uint32(s.bytes())), x)
	ADDQ(U32(uint32(size*s.lanes)), dst)
	DECQ(n)
	JNZ(LabelRef("vector"))
	Label("end")
	Store(n, Return("left"))
	s.ret()
}

// branchUnlessAll goes to a label unless the mask has all lanes.
func (s isa) branchUnlessAll(m mask, label string) {
	switch {
	case s.wide && s.double:
		KORTESTB(m.k, m.k)
		JCC(LabelRef(label))
	case s.wide:
		KORTESTW(m.k, m.k)
		JCC(LabelRef(label))
	default:
		bits := GP32()
		s.of2(VMOVMSKPS, VMOVMSKPD)(m.v, bits)
		CMPL(bits, U32(uint32(1<<s.lanes-1)))
		JNE(LabelRef(label))
	}
}

// of2 is of for instructions of two operands.
func (s isa) of2(single, double func(a, b Op)) func(a, b Op) {
	if s.double {
		return double
	}
	return single
}

// truncated returns the numbers of a vector as integers of 32 bits: those of float64 fill
// half a vector.
func (s isa) truncated(v vreg) Op {
	switch {
	case s.double && s.wide:
		w := YMM()
		VCVTTPD2DQ(v, w)
		return w
	case s.double:
		w := XMM()
		VCVTTPD2DQY(v, w)
		return w
	}
	w := s.vec()
	VCVTTPS2DQ(v, w)
	return w
}

// lowerHalf and upperHalf return half of the words of a vector.
func lowerHalf(v Op, wide bool) Op {
	if wide {
		return v.(reg.VecVirtual).AsY()
	}
	return v.(reg.VecVirtual).AsX()
}

func upperHalf(v Op, wide bool) Op {
	if wide {
		w := YMM()
		VEXTRACTI64X4(U8(1), v, w)
		return w
	}
	w := XMM()
	VEXTRACTI128(U8(1), v, w)
	return w
}
