package kernel

import "github.com/ringside-go/ringside/collective/element"

// scalars folds elements from to to one at a time: when they are so few that a call into
// assembly, or clearing a tile, would take longer, and for the rest after whole vectors.
func scalars(op element.Reduction, c conversion, scale float64, dsts, srcs [][]byte, from, to int) {
	switch {
	case c.from == element.F32 && c.to == element.F32:
		scalarFloats(op, float32(scale), dsts, srcs, from, to)
	case c.from == element.F64:
		scalarFloats(op, scale, dsts, srcs, from, to)
	case c.from == element.I64:
		scalarIntegers[int64](op, dsts, srcs, from, to)
	case c.from == element.I32:
		scalarIntegers[int32](op, dsts, srcs, from, to)
	case c.from == element.U8:
		scalarIntegers[uint8](op, dsts, srcs, from, to)
	default:
		scalarHalves(op, c, float32(scale), dsts, srcs, from, to)
	}
}

func scalarFloats[T float32 | float64](op element.Reduction, scale T, dsts, srcs [][]byte, from, to int) {
	for i := from; i < to; i++ {
		x := view[T](srcs[0])[i]
		for _, s := range srcs[1:] {
			x = pick(op, x, view[T](s)[i])
		}
		x *= scale
		for _, d := range dsts {
			view[T](d)[i] = x
		}
	}
}

func pick[T number](op element.Reduction, x, y T) T {
	switch op {
	case element.Sum:
		return x + y
	case element.Prod:
		return x * y
	case element.Min:
		return min(x, y)
	}
	return max(x, y)
}

func scalarIntegers[T int64 | int32 | uint8](op element.Reduction, dsts, srcs [][]byte, from, to int) {
	for i := from; i < to; i++ {
		x := view[T](srcs[0])[i]
		for _, s := range srcs[1:] {
			y := view[T](s)[i]
			switch op {
			case element.And:
				x &= y
			case element.Or:
				x |= y
			case element.Xor:
				x ^= y
			default:
				x = pick(op, x, y)
			}
		}
		for _, d := range dsts {
			view[T](d)[i] = x
		}
	}
}

func scalarHalves(op element.Reduction, c conversion, scale float32, dsts, srcs [][]byte, from, to int) {
	get := func(s []byte, i int) float32 {
		switch c.from {
		case element.F16:
			return halfToFloat(view[uint16](s)[i])
		case element.BF16:
			return brainToFloat(view[uint16](s)[i])
		}
		return view[float32](s)[i]
	}
	for i := from; i < to; i++ {
		x := get(srcs[0], i)
		for _, s := range srcs[1:] {
			x = pick(op, x, get(s, i))
		}
		x *= scale
		for _, d := range dsts {
			switch c.to {
			case element.F16:
				view[uint16](d)[i] = floatToHalf(x)
			case element.BF16:
				view[uint16](d)[i] = floatToBrain(x)
			default:
				view[float32](d)[i] = x
			}
		}
	}
}
