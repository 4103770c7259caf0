package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// philox writes the generator of random words: a block a lane of 64 bits, of which the
// multiplication reads the lower halves alone, so that the upper ones may hold anything.
func philox(s isa) {
	k := &kern{isa: s.doubles()}
	blocks := k.lanes
	s.text("philox", "n int, dst *uint32, c0, c1, c2, c3, k0, k1 uint32",
		fmt.Sprintf("writes the words of n groups of %d blocks of Philox4x32-10, whose counters begin with c0, c0+1 and so on and go on with c1 to c3.", blocks))
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	args := map[string]reg.VecVirtual{}
	for _, name := range []string{"c0", "c1", "c2", "c3", "k0", "k1"} {
		args[name] = s.scalar(name)
	}
	first := args["c0"]
	VPADDD(at(fmt.Sprint("philoxLanes", blocks)), first, first)
	Label("group")
	var c [4]reg.VecVirtual
	for i := range c {
		c[i] = k.copy(args[fmt.Sprint("c", i)])
	}
	k0, k1 := k.copy(args["k0"]), k.copy(args["k1"])
	for round := range 10 {
		if round > 0 {
			VPADDD(at("philoxW0"), k0, k0)
			VPADDD(at("philoxW1"), k1, k1)
		}
		p, q := k.op(VPMULUDQ, at("philoxM0"), c[0]), k.op(VPMULUDQ, at("philoxM1"), c[2])
		upper := func(product, odd, key reg.VecVirtual) reg.VecVirtual {
			v := k.vec()
			VPSRLQ(U8(32), product, v)
			return k.xor(key, k.xor(odd, v))
		}
		c = [4]reg.VecVirtual{upper(q, c[1], k0), q, upper(p, c[3], k1), p}
	}
	// The lanes are in such an order that the halves of the result are in theirs.
	pair := func(even, odd reg.VecVirtual) reg.VecVirtual {
		v := k.vec()
		VPSLLQ(U8(32), odd, v)
		return k.or(v, k.and(at("lowerHalf"), even))
	}
	front, back := pair(c[0], c[1]), pair(c[2], c[3])
	VMOVUPS(k.op(VPUNPCKLQDQ, back, front), Mem{Base: dst})
	VMOVUPS(k.op(VPUNPCKHQDQ, back, front), Mem{Base: dst, Disp: k.bytes()})
	ADDQ(U8(2*k.bytes()), dst)
	VPADDD(at(fmt.Sprint("philoxStep", blocks)), first, first)
	DECQ(n)
	JNZ(LabelRef("group"))
	k.ret()
}
