package element

import "math"

// Float16 holds the bits of an IEEE 754 binary16. There is no arithmetic on it: values
// are widened, which is exact, and rounded back. BFloat16 likewise.
//
//	Float16   1 bit sign | 5 bits exponent | 10 bits fraction  largest 65504, least 2^-24
//	BFloat16  1 bit sign | 8 bits exponent |  7 bits fraction  the range of float32
type Float16 uint16

// BFloat16 holds the bits of the upper half of a float32.
type BFloat16 uint16

// ToFloat16 rounds x to nearest, ties to even. A value beyond the range becomes an
// infinity. A NaN stays a NaN, quiet, with the upper bits of its payload, as VCVTPS2PH
// has it.
func ToFloat16(x float32) Float16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return Float16(sign | 0x7e00 | uint16(b>>13&0x3ff))
	case b >= 0x47800000: // 65536 and above
		return Float16(sign | 0x7c00)
	// below 2^-14: a multiple of 2^-24, which adding 0.5 leaves in the last bits of the
	// sum
	case b < 0x38800000:
		sum := math.Float32frombits(b) + 0.5
		return Float16(sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5)))
	}
	b += 0xfff + b>>13&1 // may carry into the exponent, up to infinity
	return Float16(sign | uint16((b-(127-15)<<23)>>13))
}

// Float32 returns h widened, which is exact.
func (h Float16) Float32() float32 {
	sign, e, f := uint32(h&0x8000)<<16, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch e {
	case 0: // a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(f)*0x1p-24))
	case 0x1f:
		if f != 0 {
			f |= 0x200 // quiet
		}
		return math.Float32frombits(sign | 0x7f800000 | f<<13)
	}
	return math.Float32frombits(sign | (e+127-15)<<23 | f<<13)
}

// ToBFloat16 rounds x to nearest, ties to even. A NaN stays one, quiet, with the upper
// bits of its payload.
func ToBFloat16(x float32) BFloat16 {
	b := math.Float32bits(x)
	if x != x {
		return BFloat16(b>>16 | 0x40)
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 returns h widened, which is exact.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }
