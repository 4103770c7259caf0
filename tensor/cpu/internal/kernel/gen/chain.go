package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chained returns the number of vectors of a chain's block.
func (s isa) chained() int {
	if s.wide {
		return 16
	}
	return 8
}

// chain writes the kernel that runs several elementwise operations on vectors that stay
// in registers: an interpreter whose one accumulator is a block of vectors.
func chain(s isa) {
	k := &kern{isa: s}
	vecs := s.chained()
	k.text("chain", "n int, code *int, ops int", fmt.Sprintf("runs ops > 0 operations on n > 0 numbers, a multiple of %d.", vecs*s.lanes))
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	code := Load(Param("code"), GP64())
	ops := Load(Param("ops"), GP64())
	at, pc, left, op, p := GP64(), GP64(), GP64(), GP64(), GP64()
	acc := make([]vreg, vecs)
	for i := range acc {
		acc[i] = k.zero()
	}
	XORQ(at, at)
	Label("block")
	MOVQ(code, pc)
	MOVQ(ops, left)
	Label("next")
	MOVQ(Mem{Base: pc}, op)
	MOVQ(Mem{Base: pc, Disp: 8}, p)
	ADDQ(Imm(16), pc)
	choose(op, k.handlers(acc, p, at))
	Label("done")
	DECQ(left)
	JNZ(LabelRef("next"))
	ADDQ(U32(uint32(vecs*s.lanes)), at)
	SUBQ(U32(uint32(vecs*s.lanes)), n)
	JG(LabelRef("block"))
	k.ret()
}

// choose writes a binary search for the handler numbered op.
func choose(op reg.Register, handlers []func()) {
	var between func(lo, hi int)
	between = func(lo, hi int) {
		if hi-lo == 1 {
			handlers[lo]()
			JMP(LabelRef("done"))
			return
		}
		mid := (lo + hi) / 2
		right := fmt.Sprintf("from%d", mid)
		CMPQ(op, U32(uint32(mid)))
		JGE(LabelRef(right))
		between(lo, mid)
		Label(right)
		between(mid, hi)
	}
	between(0, len(handlers))
}

// handlers returns functions that write the operations, in the order of the codes in
// chain.go. acc is the accumulator, p points to the operand and at is the element.
func (k *kern) handlers(acc []vreg, p, at reg.Register) (list []func()) {
	mem := func(i int) Mem { return Mem{Base: p, Index: at, Scale: 4, Disp: k.bytes() * i} }
	// each does f to every vector of the accumulator.
	each := func(f func(i int)) {
		list = append(list, func() {
			for i := range acc {
				f(i)
			}
		})
	}
	set := func(i int, v vreg) { VMOVAPS(v, acc[i]) }
	each(func(i int) { VMOVUPS(mem(i), acc[i]) }) // load
	list = append(list, func() {                  // spread
		VBROADCASTSS(Mem{Base: p}, acc[0])
		for _, a := range acc[1:] {
			VMOVAPS(acc[0], a)
		}
	})
	each(func(i int) { VMOVUPS(acc[i], mem(i)) }) // store
	for _, f := range []func(x vreg) vreg{
		k.neg,
		func(x vreg) vreg { return k.and(k.c("abs"), x) },
		func(x vreg) vreg { return k.mul(x, x) },
		k.sqrt,
		func(x vreg) vreg { return k.clampBelow(x, "zero") },
	} {
		each(func(i int) { set(i, f(acc[i])) })
	}
	for _, f := range k.pairs() {
		each(func(i int) {
			t := k.vec()
			VMOVUPS(mem(i), t)
			set(i, f(acc[i], t))
		})
		list = append(list, func() {
			t := k.vec()
			VBROADCASTSS(Mem{Base: p}, t)
			for i := range acc {
				set(i, f(acc[i], t))
			}
		})
	}
	return list
}

// pairs returns the operations of two operands, of which the second is a vector or a
// scalar. Those that don't commute follow the other way round.
func (k *kern) pairs() []func(a, b vreg) vreg {
	// One mask and one result for all: the allocator takes the register that a blend
	// writes for live from the beginning.
	var nan reg.OpmaskVirtual
	var picked vreg
	if k.wide {
		nan, picked = K(), k.zero()
	}
	extreme := func(ins func(ops ...Op), a, b vreg) vreg {
		if !k.wide {
			return k.extreme(ins, a, b)
		}
		VCMPPS(U8(unordered), a, a, nan)
		VBLENDMPS(a, k.op(ins, b, a), nan, picked)
		return picked
	}
	return []func(a, b vreg) vreg{
		func(a, b vreg) vreg { return k.add(b, a) },
		func(a, b vreg) vreg { return k.sub(a, b) },
		func(a, b vreg) vreg { return k.sub(b, a) },
		func(a, b vreg) vreg { return k.mul(b, a) },
		func(a, b vreg) vreg { return k.div(a, b) },
		func(a, b vreg) vreg { return k.div(b, a) },
		func(a, b vreg) vreg { return extreme(VMAXPS, a, b) },
		func(a, b vreg) vreg { return extreme(VMAXPS, b, a) },
		func(a, b vreg) vreg { return extreme(VMINPS, a, b) },
		func(a, b vreg) vreg { return extreme(VMINPS, b, a) },
	}
}
