package kernel

import "github.com/ringside-go/ringside/collective/plan"

// scalars folds elements from to to one at a time: for so few that a call into assembly, or the clearing of a tile,
// would take longer, and for what is left after whole vectors.
func scalars(op plan.Op, c conversion, scale float64, dsts, srcs [][]byte, from, to int) {
	switch {
	case c.from == plan.F32 && c.to == plan.F32:
		scalarFloats(op, float32(scale), dsts, srcs, from, to)
	case c.from == plan.F64:
		scalarFloats(op, scale, dsts, srcs, from, to)
	case c.from == plan.I64:
		scalarIntegers[int64](op, dsts, srcs, from, to)
	case c.from == plan.I32:
		scalarIntegers[int32](op, dsts, srcs, from, to)
	case c.from == plan.U8:
		scalarIntegers[uint8](op, dsts, srcs, from, to)
	default:
		scalarHalves(op, c, float32(scale), dsts, srcs, from, to)
	}
}

func scalarFloats[T float32 | float64](op plan.Op, scale T, dsts, srcs [][]byte, from, to int) {
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

func pick[T float32 | float64](op plan.Op, x, y T) T {
	switch op {
	case plan.Sum:
		return x + y
	case plan.Prod:
		return x * y
	case plan.Min:
		return min(x, y)
	}
	return max(x, y)
}

func scalarIntegers[T int64 | int32 | uint8](op plan.Op, dsts, srcs [][]byte, from, to int) {
	for i := from; i < to; i++ {
		x := view[T](srcs[0])[i]
		for _, s := range srcs[1:] {
			y := view[T](s)[i]
			switch op {
			case plan.Sum:
				x += y
			case plan.Prod:
				x *= y
			case plan.Min:
				x = min(x, y)
			case plan.Max:
				x = max(x, y)
			case plan.And:
				x &= y
			case plan.Or:
				x |= y
			case plan.Xor:
				x ^= y
			}
		}
		for _, d := range dsts {
			view[T](d)[i] = x
		}
	}
}

func scalarHalves(op plan.Op, c conversion, scale float32, dsts, srcs [][]byte, from, to int) {
	get := func(s []byte, i int) float32 {
		switch c.from {
		case plan.F16:
			return halfToFloat(view[uint16](s)[i])
		case plan.BF16:
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
			case plan.F16:
				view[uint16](d)[i] = floatToHalf(x)
			case plan.BF16:
				view[uint16](d)[i] = floatToBrain(x)
			default:
				view[float32](d)[i] = x
			}
		}
	}
}
