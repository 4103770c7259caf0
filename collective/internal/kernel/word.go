package kernel

import (
	"math"

	"github.com/ringside-go/ringside/collective/element"
)

// AddsWords reports whether [Set.AddWords] adds elements of dt.
func AddsWords(dt element.DType) bool {
	switch dt {
	case element.F64, element.F32, element.F16, element.BF16, element.I64, element.I32:
		return true
	}
	return false
}

// AddWords is [Set.Reduce] for the sums of two words of 8 bytes, whole elements of dt,
// with the same bits. It is for so few elements that the search for a kernel takes longer
// than the sum. The result is 0 for a type that [AddsWords] excludes.
func (s Set) AddWords(dt element.DType, x, y uint64) uint64 {
	switch dt {
	case element.F32:
		lo := math.Float32bits(math.Float32frombits(uint32(x)) + math.Float32frombits(uint32(y)))
		hi := math.Float32bits(math.Float32frombits(uint32(x>>32)) + math.Float32frombits(uint32(y>>32)))
		return uint64(hi)<<32 | uint64(lo)
	case element.BF16:
		return addBrains(x, y)
	case element.F16:
		return s.addHalves(x, y)
	case element.F64:
		return math.Float64bits(math.Float64frombits(x) + math.Float64frombits(y))
	case element.I64:
		return x + y
	case element.I32:
		return uint64(uint32(x>>32)+uint32(y>>32))<<32 | uint64(uint32(x)+uint32(y))
	}
	return 0
}

// addBrains adds four bfloat16.
func addBrains(x, y uint64) (sum uint64) {
	for shift := 0; shift < 64; shift += 16 {
		if (x|y)>>shift == 0 { // what is left is +0
			break
		}
		sum |= uint64(floatToBrain(brainToFloat(uint16(x>>shift))+brainToFloat(uint16(y>>shift)))) << shift
	}
	return sum
}

// addHalvesOneByOne adds four binary16.
func addHalvesOneByOne(x, y uint64) (sum uint64) {
	for shift := 0; shift < 64; shift += 16 {
		if (x|y)>>shift == 0 { // what is left is +0
			break
		}
		sum |= uint64(floatToHalf(halfToFloat(uint16(x>>shift))+halfToFloat(uint16(y>>shift)))) << shift
	}
	return sum
}
