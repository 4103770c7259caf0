package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// operation is a way to fold elements.
type operation struct {
	name string // of the constant in package element
	verb string // of the kernel
	doc  string // x and y become this
}

var (
	sum  = operation{"Sum", "sum", "x + y"}
	prod = operation{"Prod", "prod", "x * y"}
	low  = operation{"Min", "min", "min(x, y)"}
	high = operation{"Max", "max", "max(x, y)"}
	and  = operation{"And", "and", "x & y"}
	or   = operation{"Or", "or", "x | y"}
	xor  = operation{"Xor", "xor", "x ^ y"}
)

// single returns the instruction that does the operation alone, if there is one. Its
// second operand may be memory where elements are folded in the type that they are stored
// in.
func (o operation) single(s isa, e elem) func(ops ...Op) {
	type key struct {
		o     operation
		float int
		size  int
	}
	if e.float > 0 {
		return map[key]func(ops ...Op){
			{sum, 4, 0}: VADDPS, {sum, 8, 0}: VADDPD, {prod, 4, 0}: VMULPS, {prod, 8, 0}: VMULPD,
		}[key{o, e.float, 0}]
	}
	table := map[key]func(ops ...Op){
		{sum, 0, 1}: VPADDB, {sum, 0, 4}: VPADDD, {sum, 0, 8}: VPADDQ, {prod, 0, 4}: VPMULLD,
		{low, 0, 1}: VPMINUB, {low, 0, 4}: VPMINSD, {high, 0, 1}: VPMAXUB, {high, 0, 4}: VPMAXSD,
		{and, 0, 1}: three(VPAND), {or, 0, 1}: three(VPOR), {xor, 0, 1}: three(VPXOR),
	}
	if s.wide {
		table[key{prod, 0, 8}], table[key{low, 0, 8}], table[key{high, 0, 8}] = VPMULLQ, VPMINSQ, VPMAXSQ
		table[key{and, 0, 1}], table[key{or, 0, 1}], table[key{xor, 0, 1}] = VPANDD, VPORD, VPXORD
	}
	return table[key{o, 0, e.size}]
}

// combine makes x the fold of x and y.
func (o operation) combine(s isa, e elem, x, y vreg) {
	if ins := o.single(s, e); ins != nil {
		ins(y, x, x)
		return
	}
	switch {
	case e.float > 0:
		extremeFloat(s, e, o == high, x, y)
	case o == prod && e.size == 1:
		multiplyBytes(s, x, y)
	case o == prod:
		multiplyWords(s, x, y)
	default:
		m := s.vec() // 64-bit integers of AVX2
		VPCMPGTQ(y, x, m)
		if o == high {
			VBLENDVPD(m, x, y, x)
		} else {
			VBLENDVPD(m, y, x, x)
		}
	}
}

// extremeFloat makes x the smaller or larger of x and y. The sum of both replaces it
// where either is NaN.
func extremeFloat(s isa, e elem, larger bool, x, y vreg) {
	single := e.float == 4
	pick := func(a, b func(ops ...Op)) func(ops ...Op) {
		if single {
			return a
		}
		return b
	}
	cmp, add := pick(VCMPPS, VCMPPD), pick(VADDPS, VADDPD)
	if s.wide {
		// VRANGE knows that -0 is less than +0. Its immediate: 4 keeps the sign of the
		// number that it picks, 1 picks the larger.
		k, imm := K(), uint8(4)
		if larger {
			imm = 5
		}
		cmp(U8(unordered), y, x, k)
		r := s.vec()
		pick(VRANGEPS, VRANGEPD)(U8(imm), y, x, r)
		add(y, x, k, r)
		VMOVAPS(r, x)
		return
	}
	// VMIN and VMAX return their second operand for two zeros. So both orders are
	// computed. They agree for other numbers; for zeros "or" keeps the sign of the
	// smaller and "and" that of the larger.
	ins, both := pick(VMINPS, VMINPD), three(VPOR)
	if larger {
		ins, both = pick(VMAXPS, VMAXPD), three(VPAND)
	}
	r := s.op(both, s.op(ins, x, y), s.op(ins, y, x))
	m := s.vec()
	cmp(U8(unordered), y, x, m)
	if either := s.op(add, y, x); single {
		VBLENDVPS(m, either, r, x)
	} else {
		VBLENDVPD(m, either, r, x)
	}
}

// multiplyBytes multiplies the bytes of 16-bit lanes, each half by itself.
func multiplyBytes(s isa, x, y vreg) {
	upper := s.op(VPMULLW, s.shift(VPSRLW, 8, y), s.shift(VPSRLW, 8, x))
	upper = s.shift(VPSLLW, 8, upper)
	lower := s.shift(VPSRLW, 8, s.shift(VPSLLW, 8, s.op(VPMULLW, y, x)))
	VMOVUPS(s.or(upper, lower), x)
}

// multiplyWords multiplies 64-bit integers in halves of 32 bits: the upper halves'
// product is beyond the result.
func multiplyWords(s isa, x, y vreg) {
	cross := s.op(VPADDQ, s.op(VPMULUDQ, s.shift(VPSRLQ, 32, y), x), s.op(VPMULUDQ, s.shift(VPSRLQ, 32, x), y))
	cross = s.shift(VPSLLQ, 32, cross)
	VPADDQ(cross, s.op(VPMULUDQ, y, x), x)
}
