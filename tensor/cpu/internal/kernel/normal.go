package kernel

import "math"

// Normal returns two independent normal numbers by the transform of Box and Muller, from
// the upper 24 bits of two random words: u in (0, 1] and v in [0, 1) give
// √(-2 ln u)·cos(2πv) and √(-2 ln u)·sin(2πv), up to 0.501 ulp. It computes in float64,
// and rounds every product, so that all processors give the same bits.
func Normal(u, v uint32) (cos, sin float32) {
	// ln u by the tables of power
	b := math.Float64bits(float64(u>>8+1) * 0x1p-24)
	m := b & (1<<52 - 1)
	i := (m + 1<<(51-powerBits)) >> (52 - powerBits)
	k := int(b>>52) - 1023
	if i >= upper {
		k++
	}
	r := float64(math.Float64frombits(1023<<52|m)*powerTables.inverse[i]) - 1
	p := 1.0/5 - float64(r*(1.0/6))
	p = 1.0/4 - float64(p*r)
	p = 1.0/3 - float64(p*r)
	p = 1.0/2 - float64(p*r)
	ln := r - float64(float64(r*r)*p)
	radius := math.Sqrt(-2 * (float64((float64(k)+powerTables.log[i])*math.Ln2) + ln))

	// the angle is quarter turns and at most an eighth more or less
	const quarter = 1 << 22
	n := int64(v >> 8)
	turns := uint64(n+quarter/2) / quarter
	x := float64(n-int64(turns)*quarter) * (math.Pi / 2 / quarter)
	xx := float64(x * x)
	s := 1.0/362880 - float64(xx*(1.0/39916800))
	s = 1.0/5040 - float64(s*xx)
	s = 1.0/120 - float64(s*xx)
	s = 1.0/6 - float64(s*xx)
	s = float64(radius * (x - float64(float64(x*xx)*s)))
	c := 1.0/40320 - float64(xx*(1.0/3628800))
	c = 1.0/720 - float64(c*xx)
	c = 1.0/24 - float64(c*xx)
	c = 1.0/2 - float64(c*xx)
	c = float64(radius * (1 - float64(xx*c)))

	// An odd number of turns exchanges the two. Without branches, which would be
	// mispredicted.
	sb, cb := math.Float64bits(s), math.Float64bits(c)
	odd := (sb ^ cb) & -(turns & 1)
	sb, cb = sb^odd^(turns&2)<<62, cb^odd^((turns+1)&2)<<62
	return float32(math.Float64frombits(cb)), float32(math.Float64frombits(sb))
}

// normalsGo is Normals of [Table].
func normalsGo(dst []float32, words []uint32) {
	for ; len(dst) >= 2; dst, words = dst[2:], words[2:] {
		dst[0], dst[1] = Normal(words[0], words[1])
	}
	if len(dst) == 1 {
		dst[0], _ = Normal(words[0], words[1])
	}
}
