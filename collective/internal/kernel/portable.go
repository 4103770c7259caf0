package kernel

import "github.com/ringside-go/ringside/collective/element"

type number interface {
	float64 | float32 | int64 | int32 | uint8 | uint16
}

// tile is the number of elements that portable Go folds at a time, so that the
// accumulators stay in the first-level cache.
const tile = 1024

// portable folds elements up to the given one, except for a short rest, and returns how
// many it did.
func portable(op element.Reduction, c conversion, scale float64, dsts, srcs [][]byte, to int) int {
	from := 0
	for to-from >= tile/8 {
		n := min(tile, to-from)
		switch {
		case c.from == element.F64:
			foldFloats(op, scale, dsts, srcs, from, n)
		case c.from == element.I64:
			foldIntegers[int64](op, dsts, srcs, from, n)
		case c.from == element.I32:
			foldIntegers[int32](op, dsts, srcs, from, n)
		case c.from == element.U8:
			foldIntegers[uint8](op, dsts, srcs, from, n)
		default:
			foldSingles(op, c, float32(scale), dsts, srcs, from, n)
		}
		from += n
	}
	return from
}

// at returns n elements of b, from the given one.
func at[T number](b []byte, from, n int) []T {
	return view[T](b)[from : from+n]
}

func foldIntegers[T int64 | int32 | uint8](op element.Reduction, dsts, srcs [][]byte, from, n int) {
	var room [tile]T
	acc := room[:n]
	copy(acc, at[T](srcs[0], from, n))
	for _, s := range srcs[1:] {
		x := at[T](s, from, n)
		switch op {
		case element.And:
			for i, v := range x {
				acc[i] &= v
			}
		case element.Or:
			for i, v := range x {
				acc[i] |= v
			}
		case element.Xor:
			for i, v := range x {
				acc[i] ^= v
			}
		default:
			combine(op, acc, x)
		}
	}
	for _, d := range dsts {
		copy(at[T](d, from, n), acc)
	}
}

func foldFloats(op element.Reduction, scale float64, dsts, srcs [][]byte, from, n int) {
	var room [tile]float64
	acc := room[:n]
	copy(acc, at[float64](srcs[0], from, n))
	for _, s := range srcs[1:] {
		combine(op, acc, at[float64](s, from, n))
	}
	if scale != 1 {
		scaleBy(acc, scale)
	}
	for _, d := range dsts {
		copy(at[float64](d, from, n), acc)
	}
}

// foldSingles folds the types that are folded in float32.
func foldSingles(op element.Reduction, c conversion, scale float32, dsts, srcs [][]byte, from, n int) {
	var room, wide [tile]float32
	acc := room[:n]
	load(acc, c.from, srcs[0], from)
	for _, s := range srcs[1:] {
		if c.from == element.F32 {
			combine(op, acc, at[float32](s, from, n))
			continue
		}
		load(wide[:n], c.from, s, from)
		combine(op, acc, wide[:n])
	}
	if scale != 1 {
		scaleBy(acc, scale)
	}
	if c.to == element.F32 {
		for _, d := range dsts {
			copy(at[float32](d, from, n), acc)
		}
		return
	}
	for i, d := range dsts {
		if i > 0 {
			copy(at[uint16](d, from, n), at[uint16](dsts[0], from, n))
			continue
		}
		out := at[uint16](d, from, n)
		if c.to == element.F16 {
			for i, v := range acc {
				out[i] = floatToHalf(v)
			}
			continue
		}
		for i, v := range acc {
			out[i] = floatToBrain(v)
		}
	}
}

// load widens elements of dt.
func load(acc []float32, dt element.DType, src []byte, from int) {
	switch dt {
	case element.F32:
		copy(acc, at[float32](src, from, len(acc)))
	case element.F16:
		for i, h := range at[uint16](src, from, len(acc)) {
			acc[i] = halfToFloat(h)
		}
	case element.BF16:
		for i, h := range at[uint16](src, from, len(acc)) {
			acc[i] = brainToFloat(h)
		}
	}
}

// combine is acc = acc op x. Go's min and max are those of the package's doc.
func combine[T number](op element.Reduction, acc, x []T) {
	acc = acc[:len(x)]
	switch op {
	case element.Sum:
		for i, v := range x {
			acc[i] += v
		}
	case element.Prod:
		for i, v := range x {
			acc[i] *= v
		}
	case element.Min:
		for i, v := range x {
			acc[i] = min(acc[i], v)
		}
	case element.Max:
		for i, v := range x {
			acc[i] = max(acc[i], v)
		}
	}
}

func scaleBy[T float32 | float64](acc []T, scale T) {
	for i := range acc {
		acc[i] *= scale
	}
}
