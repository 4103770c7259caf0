package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// halves writes the conversions between float32 and the other floats, and of random
// words. Their n is a multiple of a vector's lanes: Go does the rest.
func halves(s isa) {
	convert(s, "widenF16", "dst[i] = x[i] of binary16", single, half, func(dst, x Mem) {
		v := s.vec()
		VCVTPH2PS(x, v)
		VMOVUPS(v, dst)
	})
	convert(s, "widenBF16", "dst[i] = x[i] of bfloat16", single, half, func(dst, x Mem) {
		v := s.vec()
		s.widenBF16(x, v)
		VMOVUPS(v, dst)
	})
	convert(s, "narrowF16", "dst[i] = x[i] as binary16, to nearest even", half, single, func(dst, x Mem) {
		v := s.vec()
		VMOVUPS(x, v)
		VCVTPS2PH(Imm(0), v, dst)
	})
	convert(s, "narrowBF16", "dst[i] = x[i] as bfloat16, to nearest even", half, single, func(dst, x Mem) {
		v := s.vec()
		VMOVUPS(x, v)
		storeHalves(s, roundedBF16(s, v), dst)
	})
	convert(s, "double", "dst[i] = x[i]", double64, single, func(dst, x Mem) {
		for _, at := range s.halfVectors() {
			v := s.vec()
			VCVTPS2PD(x.Offset(at/2), v)
			VMOVUPS(v, dst.Offset(at))
		}
	})
	convert(s, "single", "dst[i] = x[i], to nearest even", single, double64, func(dst, x Mem) {
		for _, at := range s.halfVectors() {
			v := s.vec()
			VMOVUPS(x.Offset(at), v)
			if s.wide {
				VCVTPD2PS(v, v.AsY())
				VMOVUPS(v.AsY(), dst.Offset(at/2))
			} else {
				VCVTPD2PSY(v, v.AsX())
				VMOVUPS(v.AsX(), dst.Offset(at/2))
			}
		}
	})
	convert(s, "units", "dst[i] = the upper 24 bits of x[i] as a fraction of 1", single, word, func(dst, x Mem) {
		v := s.vec()
		VMOVUPS(x, v)
		VPSRLD(Imm(8), v, v)
		VCVTDQ2PS(v, v)
		VMULPS(at("unit"), v, v)
		VMOVUPS(v, dst)
	})
}

// halfVectors returns the offsets of the two vectors that as many float64 take as a
// vector has float32.
func (s isa) halfVectors() []int { return []int{0, s.bytes()} }

// operandType is a type of the numbers that conversions read and write.
type operandType struct {
	name string
	size int
}

var (
	half   = operandType{"uint16", 2}
	word   = operandType{"uint32", 4}
	single = operandType{"float32", 4}

	double64 = operandType{"float64", 8}
)

// roundedBF16 returns the numbers of v as bfloat16 in the lower halves of the lanes. It
// adds a number that carries into the upper half where that half is to be rounded up, and
// takes the upper half. A NaN keeps its own.
func roundedBF16(s isa, v vreg) vreg {
	high, up := s.vec(), s.vec()
	VPSRLD(Imm(16), v, high)
	if s.wide {
		nan := K()
		VCMPPS(Imm(unordered), v, v, nan)
		VPANDD(at("bfOne"), high, up)
		VPADDD(at("bfAlmost"), up, up)
		VPADDD(v, up, up)
		VPSRLD(Imm(16), up, up)
		VPORD(at("bfQuiet"), high, nan, up)
		return up
	}
	nan := s.vec()
	VCMPPS(Imm(unordered), v, v, nan)
	VPAND(at("bfOne"), high, up)
	VPADDD(at("bfAlmost"), up, up)
	VPADDD(v, up, up)
	VPSRLD(Imm(16), up, up)
	VPOR(at("bfQuiet"), high, high)
	VPBLENDVB(nan, high, up, up)
	return up
}

// storeHalves writes the lower halves of the lanes of v, which it destroys.
func storeHalves(s isa, v vreg, dst Mem) {
	if s.wide {
		VPMOVDW(v, dst)
		return
	}
	VPACKUSDW(v, v, v)
	VPERMQ(Imm(8), v, v)
	VMOVUPS(v.AsX(), dst)
}

// convert writes one kernel. f writes the conversion of one vector.
func convert(s isa, name, doc string, to, from operandType, f func(dst, x Mem)) {
	conversions = append(conversions, name)
	s.text(name, fmt.Sprintf("n int, dst *%s, x *%s", to.name, from.name),
		fmt.Sprintf("is %s for 0 <= i < n, a multiple of %d.", doc, s.lanes))
	n, dst, x := GP64(), GP64(), GP64()
	Load(Param("n"), n)
	Load(Param("dst"), dst)
	Load(Param("x"), x)
	const unroll = 4
	for _, many := range []int{unroll, 1} {
		loop, done := fmt.Sprintf("by%d", many), fmt.Sprintf("by%ddone", many)
		Label(loop)
		CMPQ(n, U32(many*s.lanes))
		JL(LabelRef(done))
		for i := range many {
			f(Mem{Base: dst, Disp: i * s.lanes * to.size}, Mem{Base: x, Disp: i * s.lanes * from.size})
		}
		ADDQ(U32(many*s.lanes*to.size), dst)
		ADDQ(U32(many*s.lanes*from.size), x)
		SUBQ(U32(many*s.lanes), n)
		JMP(LabelRef(loop))
		Label(done)
	}
	VZEROUPPER()
	RET()
}
