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
	halfMem := func(i int) Mem { return Mem{Base: p, Index: at, Scale: 2, Disp: k.bytes() / 2 * i} }
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
	each(func(i int) { VCVTPH2PS(halfMem(i), acc[i]) })
	each(func(i int) { k.widenBF16(halfMem(i), acc[i]) })
	each(func(i int) { VMOVUPS(acc[i], mem(i)) }) // store
	each(func(i int) { VCVTPS2PH(Imm(0), acc[i], halfMem(i)) })
	each(func(i int) { storeHalves(k.isa, roundedBF16(k.isa, acc[i]), halfMem(i)) })
	each(func(i int) { // round
		var half reg.Register = XMM()
		if k.wide {
			half = YMM()
		}
		VCVTPS2PH(Imm(0), acc[i], half)
		VCVTPH2PS(half, acc[i])
	})
	each(func(i int) { VPSLLD(Imm(16), roundedBF16(k.isa, acc[i]), acc[i]) })
	pick := newPicker(k)
	for _, f := range k.singles(pick) {
		each(func(i int) { set(i, f(acc[i])) })
	}
	for _, f := range k.pairs(pick) {
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
		each(func(i int) {
			t := k.vec()
			VCVTPH2PS(halfMem(i), t)
			set(i, f(acc[i], t))
		})
		each(func(i int) {
			t := k.vec()
			k.widenBF16(halfMem(i), t)
			set(i, f(acc[i], t))
		})
	}
	return list
}

// widenBF16 sets v to the bfloat16 at m.
func (s isa) widenBF16(m Mem, v vreg) {
	VPMOVZXWD(m, v)
	VPSLLD(Imm(16), v, v)
}

// pickFunc returns yes in the lanes in which x is as a predicate says of y, no in the
// others.
type pickFunc func(predicate uint8, x vreg, y Op, yes, no vreg) vreg

// newPicker returns a function whose results share a register, with one mask for all: the
// allocator takes the register that a blend writes for live from the beginning.
func newPicker(k *kern) pickFunc {
	if !k.wide {
		return func(predicate uint8, x vreg, y Op, yes, no vreg) vreg { return k.sel(k.cmp(predicate, x, y), yes, no) }
	}
	lanes, picked := K(), k.zero()
	return func(predicate uint8, x vreg, y Op, yes, no vreg) vreg {
		VCMPPS(U8(predicate), y, x, lanes)
		VBLENDMPS(yes, no, lanes, picked)
		return picked
	}
}

// singles returns the operations of the accumulator alone.
func (k *kern) singles(pick pickFunc) []func(x vreg) vreg {
	return []func(x vreg) vreg{
		k.neg,
		func(x vreg) vreg { return k.and(k.c("abs"), x) },
		func(x vreg) vreg {
			return pick(equalOrUnordered, x, k.c("zero"), x, k.or(k.c("one"), k.and(k.c("sign"), x)))
		},
		func(x vreg) vreg { return k.mul(x, x) },
		k.sqrt,
		func(x vreg) vreg { return k.div(k.mut("one"), k.sqrt(x)) },
		func(x vreg) vreg { return k.div(k.mut("one"), x) },
		func(x vreg) vreg { return k.whole(x, 9) },
		func(x vreg) vreg { return k.whole(x, 10) },
		func(x vreg) vreg { return k.clampBelow(x, "zero") },
	}
}

// pairs returns the operations of two operands, of which the second is a vector or a
// scalar. Those that don't commute follow the other way round.
func (k *kern) pairs(pick pickFunc) (list []func(a, b vreg) vreg) {
	extreme := func(ins func(ops ...Op)) func(a, b vreg) vreg {
		return func(a, b vreg) vreg { return pick(unordered, a, a, a, k.op(ins, b, a)) }
	}
	one := func(f func(a, b vreg) vreg) { list = append(list, f) }
	both := func(f func(a, b vreg) vreg) { list = append(list, f, func(a, b vreg) vreg { return f(b, a) }) }
	one(func(a, b vreg) vreg { return k.add(b, a) })
	both(func(a, b vreg) vreg { return k.sub(a, b) })
	one(func(a, b vreg) vreg { return k.mul(b, a) })
	both(func(a, b vreg) vreg { return k.div(a, b) })
	both(extreme(VMAXPS))
	both(extreme(VMINPS))
	both(func(x, dy vreg) vreg {
		zero := k.mut("zero")
		return pick(above, x, zero, dy, zero)
	})
	both(func(y, dy vreg) vreg { return k.mul(dy, k.sub(k.mut("one"), k.mul(y, y))) })
	both(func(y, dy vreg) vreg { return k.mul(k.mul(dy, y), k.sub(k.mut("one"), y)) })
	return list
}
