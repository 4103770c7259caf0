package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// longVectors is how many vectors the product of such numbers takes at a time.
const longVectors = 4

// longProduct writes the product of float64s whose significands and exponents are apart.
func longProduct(s isa) {
	k := &kern{isa: s.doubles()}
	group := longVectors * k.lanes
	k.text("longProduct", "n int, x *float64",
		fmt.Sprintf("returns the product of the significands of n > 0 numbers, a multiple of %d, and the sum, the least and the most of their exponents with the bias.", group),
		"product float64, sum int, least int, most int")
	n, x := Load(Param("n"), GP64()), Load(Param("x"), GP64())
	product := make([]vreg, longVectors)
	for u := range product {
		product[u] = k.mut("one")
	}
	sum, least, most := k.zero(), k.mut("abs"), k.zero()
	one, bits := k.mut("one"), k.mut("signAndMantissa")
	Label("group")
	for u := range product {
		v, e := k.vec(), k.vec()
		VMOVUPS(Mem{Base: x, Disp: u * k.bytes()}, v)
		VPSLLQ(U8(1), v, e) // without the sign
		VPSRLQ(U8(53), e, e)
		v = k.or(one, k.and(bits, v))
		VMULPD(v, product[u], product[u])
		VPADDQ(e, sum, sum)
		VPMINUD(e, least, least) // the upper words are 0
		VPMAXUD(e, most, most)
	}
	ADDQ(U32(uint32(group*k.numberBytes())), x)
	SUBQ(U32(uint32(group)), n)
	JNZ(LabelRef("group"))
	times := func(a, b vreg) vreg { return k.mul(b, a) }
	total := k.fold(times(times(product[0], product[1]), times(product[2], product[3])), times)
	VMOVSD(total.AsX(), longResult("product"))
	for _, r := range []struct {
		name string
		v    vreg
		ins  func(ops ...Op)
	}{{"sum", sum, VPADDQ}, {"least", least, VPMINUD}, {"most", most, VPMAXUD}} {
		v := k.fold(r.v, func(a, b vreg) vreg { return k.op(r.ins, b, a) })
		VMOVQ(v.AsX(), longResult(r.name))
	}
	k.ret()
}

// longResult returns where a result of the function is stored.
func longResult(name string) Op {
	r, err := Return(name).Resolve()
	if err != nil {
		panic(err)
	}
	return r.Addr
}
