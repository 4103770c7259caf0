package kernel

import "math"

// halfToFloat widens the 16 bits of an IEEE 754 binary16, exactly. A NaN keeps its payload and becomes quiet.
func halfToFloat(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case rest >= 0x7c00: // infinity, NaN
		rest = rest<<13 | 0x7f800000
		if rest > 0x7f800000 {
			rest |= 0x00400000
		}
		return math.Float32frombits(sign | rest)
	case rest >= 0x0400:
		return math.Float32frombits(sign | rest<<13 + (127-15)<<23)
	}
	return math.Float32frombits(math.Float32bits(float32(rest)*0x1p-24) | sign) // subnormal or zero
}

// floatToHalf rounds to binary16, to the nearest, ties to even; what is too large becomes infinite.
func floatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign, b := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case b > 0x7f800000: // NaN, quiet
		return sign | 0x7e00 | uint16(b>>13)&0x03ff
	case b >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14 the spacing is 2^-24: adding 1/2 leaves the rounded multiple in the low bits
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	return sign | uint16((b-(127-15)<<23+0x0fff+b>>13&1)>>13)
}

// brainToFloat widens a bfloat16, the upper half of a float32.
func brainToFloat(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// floatToBrain rounds to bfloat16, to the nearest, ties to even. A NaN becomes the one quiet NaN 0x7fc0.
func floatToBrain(f float32) uint16 {
	if f != f {
		return 0x7fc0
	}
	b := math.Float32bits(f)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
