package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Folding bf16 into bf16 needs no widening shuffles. The elements of odd numbers are
// float32 once the other half of their 32 bits is cleared, and those of even numbers once
// they are shifted up.

// quiet replaces the NaNs in acc by the one that rounding leaves alone. NaNs are rare, so
// one test of all precedes it.
func (w *walk) quiet(label string, acc [][]vreg) {
	if w.wide {
		var any reg.OpmaskVirtual
		for i, v := range acc {
			k := K()
			VCMPPS(U8(unordered), v[1], v[0], k)
			if i > 0 {
				KORW(any, k, k)
			}
			any = k
		}
		KORTESTW(any, any)
		JZ(LabelRef(label))
		for _, v := range acc {
			for _, x := range v {
				k := K()
				VCMPPS(U8(unordered), x, x, k)
				VMOVDQA32(w.c.nan, k, x)
			}
		}
		Label(label)
		return
	}
	var any vreg
	for i, v := range acc {
		m := w.vec()
		VCMPPS(U8(unordered), v[1], v[0], m)
		if i > 0 {
			VPOR(any, m, m)
		}
		any = m
	}
	VPTEST(any, any)
	JZ(LabelRef(label))
	for _, v := range acc {
		for _, x := range v {
			m := w.vec()
			VCMPPS(U8(unordered), x, x, m)
			VBLENDVPS(m, w.c.nan, x, x)
		}
	}
	Label(label)
}

// join rounds both and merges them.
func (w *walk) join(even, odd vreg) vreg {
	e, o := w.c.round(w.isa, even), w.c.round(w.isa, odd)
	VPSRLD(U8(16), e, e)
	if w.wide {
		VMOVDQU16(o, w.odds, e)
	} else {
		VPBLENDW(U8(0xaa), o, e, e)
	}
	return e
}
