package kernel

import "github.com/ringside-go/ringside/collective/element"

// pairMax is the most bytes that [Set.Pair] sums: beyond, vectors are quicker.
const pairMax = 16

// Pair is [Set.Reduce] of two sources into one destination, for a few bytes: sums of the
// common types without the search for a kernel, which takes longer than a few elements.
// It returns false, and does nothing, in other cases. The lengths must agree.
func (s Set) Pair(op element.Reduction, dt element.DType, scale float64, dst, x, y []byte) bool {
	if op != element.Sum || scale != 1 || len(dst) > pairMax || len(x) != len(dst) || len(y) != len(dst) {
		return false
	}
	switch dt {
	case element.F32:
		addPair[float32](dst, x, y)
	case element.F64:
		addPair[float64](dst, x, y)
	case element.I32:
		addPair[int32](dst, x, y)
	case element.I64:
		addPair[int64](dst, x, y)
	case element.BF16:
		d, a, b := view[uint16](dst), view[uint16](x), view[uint16](y)
		for i := range d {
			d[i] = floatToBrain(brainToFloat(a[i]) + brainToFloat(b[i]))
		}
	case element.F16:
		if len(dst) > pairMax/4 { // a conversion takes longer than a vector's
			return false
		}
		d, a, b := view[uint16](dst), view[uint16](x), view[uint16](y)
		for i := range d {
			d[i] = floatToHalf(halfToFloat(a[i]) + halfToFloat(b[i]))
		}
	default:
		return false
	}
	return true
}

func addPair[T number](dst, x, y []byte) {
	d, a, b := view[T](dst), view[T](x), view[T](y)
	for i := range d {
		d[i] = a[i] + b[i]
	}
}
