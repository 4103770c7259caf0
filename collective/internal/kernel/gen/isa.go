package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vreg is a vector register: a certain one, or one that the allocator chooses.
type vreg interface {
	reg.Register
	reg.Vec
}

// isa is one instruction set. The differences between them are here and in the
// operations; most instructions have the same name for both widths.
type isa struct {
	name  string
	bytes int // in a vector
	wide  bool
	brain bool // rounds to bf16 by an instruction
}

var (
	avx512     = isa{"AVX512", 64, true, false}
	avx512BF16 = isa{"AVX512BF16", 64, true, true}
	avx2       = isa{"AVX2", 32, false, false}
)

func (s isa) vec() vreg {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// half returns a register for v narrowed to half of its width.
func (s isa) half() vreg {
	if s.wide {
		return YMM()
	}
	return XMM()
}

// word returns a vector of one 32-bit constant.
func (s isa) word(c uint32) vreg {
	g, x, v := GP32(), XMM(), s.vec()
	MOVL(U32(c), g)
	VMOVD(g, x)
	VPBROADCASTD(x, v)
	return v
}

// op returns b OP a, in the order of operands of Go's assembler.
func (s isa) op(ins func(ops ...Op), a Op, b vreg) vreg {
	v := s.vec()
	ins(a, b, v)
	return v
}

// three gives an instruction that exists for AVX2 alone the form of the others.
func three(ins func(a, b, c Op)) func(ops ...Op) {
	return func(ops ...Op) { ins(ops[0], ops[1], ops[2]) }
}

// shift returns v shifted.
func (s isa) shift(ins func(ops ...Op), by uint8, v vreg) vreg {
	r := s.vec()
	ins(U8(by), v, r)
	return r
}

func (s isa) and(a, b vreg) vreg {
	if s.wide {
		return s.op(VPANDD, a, b)
	}
	return s.op(three(VPAND), a, b)
}

func (s isa) or(a, b vreg) vreg {
	if s.wide {
		return s.op(VPORD, a, b)
	}
	return s.op(three(VPOR), a, b)
}

// unordered is the predicate of VCMPPS and VCMPPD that is true if either operand is NaN;
// it does not signal.
const unordered = 3
