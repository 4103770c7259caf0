package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elem is the layout of elements in memory, and the type that they are folded in.
type elem struct {
	name  string
	size  int
	float int // bytes of the float that it is folded in, 0 for integers
}

var (
	f64  = elem{"F64", 8, 8}
	f32  = elem{"F32", 4, 4}
	f16  = elem{"F16", 2, 4}
	bf16 = elem{"BF16", 2, 4}
	i64  = elem{"I64", 8, 0}
	i32  = elem{"I32", 4, 0}
	u8   = elem{"U8", 1, 0}
)

// folded returns the bytes of an element in the vector that it is folded in.
func (e elem) folded() int { return max(e.size, e.float) }

// load reads a vector of elements. A mask, if there is one, selects some; the others
// become 0.
func (e elem) load(m Mem, k *reg.OpmaskVirtual, v vreg) {
	if k == nil {
		switch e {
		case f16:
			VCVTPH2PS(m, v)
		case bf16:
			VPMOVZXWD(m, v)
			VPSLLD(U8(16), v, v)
		default:
			VMOVUPS(m, v)
		}
		return
	}
	switch e {
	case f16:
		VCVTPH2PS_Z(m, *k, v)
	case bf16:
		VPMOVZXWD_Z(m, *k, v)
		VPSLLD(U8(16), v, v)
	case f64, i64:
		VMOVUPD_Z(m, *k, v)
	case u8:
		VMOVDQU8_Z(m, *k, v)
	default:
		VMOVUPS_Z(m, *k, v)
	}
}

// rounding holds the constants of rounding to bf16. one is the last place that stays, in
// its own position if there are masks. up is added to a number whose last place is odd,
// bias to others.
type rounding struct{ bias, up, one, nan vreg }

func (e elem) rounding(s isa) (r rounding) {
	if e == bf16 {
		r = rounding{bias: s.word(0x7fff), nan: s.word(0x7fc00000)}
		if s.wide {
			r.up, r.one = s.word(0x8000), s.word(1<<16)
		} else {
			r.one = s.word(1)
		}
	}
	return r
}

// round adds half of the last place, less a bit where that place is even, to the bits as
// integers.
func (c rounding) round(s isa, v vreg) vreg {
	if s.wide {
		k := K()
		VPTESTMD(c.one, v, k)
		r := s.op(VPADDD, c.bias, v)
		VPADDD(c.up, v, k, r)
		return r
	}
	r := s.and(c.one, s.shift(VPSRLD, 16, v))
	return s.op(VPADDD, s.op(VPADDD, c.bias, v), r)
}

// narrow returns v as it is stored.
func (e elem) narrow(s isa, v vreg, c rounding) vreg {
	switch e {
	case f16:
		h := s.half()
		VCVTPS2PH(U8(0), v, h) // 0: to the nearest, ties to even
		return h
	case bf16:
		r, h := c.round(s, v), s.half()
		if s.wide {
			k := K()
			VCMPPS(U8(unordered), v, v, k)
			VMOVDQA32(c.nan, k, r)
			VPSRLD(U8(16), r, r)
			VPMOVDW(r, h)
			return h
		}
		m := s.vec()
		VCMPPS(U8(unordered), v, v, m)
		VBLENDVPS(m, c.nan, r, r)
		VPSRLD(U8(16), r, r)
		VEXTRACTI128(U8(1), r, h)
		VPACKUSDW(h, r.AsX(), h) // the lower half of r comes first
		return h
	}
	return v
}

// store writes the result of narrow, or the part that a mask selects.
func (e elem) store(v vreg, m Mem, k *reg.OpmaskVirtual) {
	if k == nil {
		VMOVUPS(v, m)
		return
	}
	switch e.size {
	case 8:
		VMOVUPD(v, *k, m)
	case 2:
		VMOVDQU16(v, *k, m)
	case 1:
		VMOVDQU8(v, *k, m)
	default:
		VMOVUPS(v, *k, m)
	}
}
