package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Coefficients of Normal of package kernel, highest first.
var (
	normalLog = inverses("normalLog", 6, 5, 4, 3, 2)
	normalSin = inverses("normalSin", 39916800, 362880, 5040, 120, 6)
	normalCos = inverses("normalCos", 3628800, 40320, 720, 24, 2)
)

// inverses names the inverses of n.
func inverses(name string, n ...float64) []string {
	return doubleSeries(name, len(n), func(i int) float64 { return 1 / n[len(n)-1-i] })
}

// normalNumbers are the other constants of normals.
func normalNumbers() []double {
	num := math.Float64bits
	const quarter = 1 << 22
	return []double{
		{"normalUnit", num(0x1p-24)}, {"normalTurn", num(math.Pi / 2 / quarter)}, {"normalEighth", quarter / 2},
		{"normalHalfEntry", 1 << 45}, {"normalBelowUpper", 26}, {"normalMinusTwo", num(-2)}, {"normalLn2", num(math.Ln2)},
		{"two52And1023", num(1<<52 + 1023)}, {"integerTwo", 2},
	}
}

// normals writes the transform of random words to normal numbers, four pairs at a time,
// operation by operation as Normal of package kernel, which has the same bits.
func normals(s isa) {
	k := &kern{isa: s.doubles()}
	s.text("normals", "n int, dst *float32, words *uint32, inverse, log *float64",
		fmt.Sprintf("is dst[2*i], dst[2*i+1] = Normal(words[2*i], words[2*i+1]) for 0 <= i < n, a multiple of %d; inverse and log are the tables of powers.", k.lanes))
	n, dst, words := Load(Param("n"), GP64()), Load(Param("dst"), GP64()), Load(Param("words"), GP64())
	inverse, log := Load(Param("inverse"), GP64()), Load(Param("log"), GP64())
	right := func(x vreg, by int) vreg { v := k.vec(); VPSRLQ(U8(by), x, v); return v }
	left := func(x vreg, by int) vreg { v := k.vec(); VPSLLQ(U8(by), x, v); return v }
	plus := func(a Op, b vreg) vreg { return k.op(VPADDQ, a, b) }
	// entry returns the numbers of a table at i.
	entry := func(table reg.Register, i vreg) vreg {
		v, all := k.vec(), k.vec()
		VXORPS(v, v, v)
		VPCMPEQD(all, all, all)
		VGATHERQPD(all, Mem{Base: table, Index: i, Scale: 8}, v)
		return v
	}
	// down returns c0 - x*(c1 - x*(c2 - ...)) of coefficients of which the last is c0.
	down := func(x vreg, coefficients []string) vreg {
		p := k.mul(k.c(coefficients[0]), x)
		for i, c := range coefficients[1:] {
			p = k.sub(k.mut(c), p)
			if i+2 < len(coefficients) {
				p = k.mul(p, x)
			}
		}
		return p
	}
	Label("group")
	w := k.vec()
	VMOVUPS(Mem{Base: words}, w)
	// the logarithm of the first word's number
	u := plus(k.c("integerOne"), right(left(w, 32), 40))
	b := k.mul(k.c("normalUnit"), k.sub(k.or(k.c("two52"), u), k.c("two52")))
	m := k.and(k.c("mantissa"), b)
	i := right(plus(k.c("normalHalfEntry"), m), 46)
	above := k.vec()
	VPCMPGTQ(k.c("normalBelowUpper"), i, above)
	exponent := k.op(VPSUBQ, above, right(b, 52))
	r := k.sub(k.mul(entry(inverse, i), k.or(k.c("one"), m)), k.c("one"))
	ln := k.sub(r, k.mul(k.mul(r, r), down(r, normalLog)))
	e := k.add(entry(log, i), k.sub(k.or(k.c("two52"), exponent), k.c("two52And1023")))
	square := k.mul(k.c("normalMinusTwo"), k.add(ln, k.mul(k.c("normalLn2"), e)))
	radius := k.vec()
	VSQRTPD(square, radius)
	// sine and cosine of the second's
	angle := right(w, 40)
	turns := right(plus(k.c("normalEighth"), angle), 22)
	rest := k.op(VPSUBQ, left(turns, 22), angle)
	x := k.mul(k.c("normalTurn"), k.sub(plus(k.c("roundBits"), rest), k.c("roundBits")))
	xx := k.mul(x, x)
	sin := k.mul(radius, k.sub(x, k.mul(k.mul(x, xx), down(xx, normalSin))))
	cos := k.mul(radius, k.sub(k.mut("one"), k.mul(xx, down(xx, normalCos))))
	odd := k.op(VPSUBQ, k.and(k.c("integerOne"), turns), k.zero())
	swap := k.and(odd, k.xor(sin, cos))
	sign := func(turns vreg) vreg { return left(k.and(k.c("integerTwo"), turns), 62) }
	sin = k.xor(sign(turns), k.xor(swap, sin))
	cos = k.xor(sign(plus(k.c("integerOne"), turns)), k.xor(swap, cos))
	c, d, lo := XMM(), XMM(), XMM()
	VCVTPD2PSY(cos, c)
	VCVTPD2PSY(sin, d)
	VUNPCKLPS(d, c, lo)
	VUNPCKHPS(d, c, c)
	VMOVUPS(lo, Mem{Base: dst})
	VMOVUPS(c, Mem{Base: dst, Disp: 16})
	ADDQ(U8(32), words)
	ADDQ(U8(32), dst)
	SUBQ(U8(k.lanes), n)
	JNZ(LabelRef("group"))
	k.ret()
}
