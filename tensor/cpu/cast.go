package cpu

import (
	"math"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
)

// Conversions of the op table: a float is cut toward zero and clamped, NaN is 0; integers
// wrap as Go's do; numbers become an f16 or bf16 by way of f32.

func toI64(x float64) int64 {
	switch {
	case x != x:
		return 0
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}

func toI32(x float64) int32 { return int32(min(max(toI64(x), math.MinInt32), math.MaxInt32)) }
func toU8(x float64) uint8  { return uint8(min(max(toI64(x), 0), math.MaxUint8)) }

// convert returns a scalar as T.
func convert[T number](x float64) T {
	var z T
	switch any(z).(type) {
	case int32:
		return T(toI32(x))
	case int64:
		return T(toI64(x))
	case uint8:
		return T(toU8(x))
	}
	return T(x)
}

func (lw *lowerer) castLoop(from, to tensor.DType) loop {
	if from == to {
		return movesBySize[from.Size()].copies()
	}
	switch {
	case from == tensor.F32 && to == tensor.F16:
		return loop1(lw.table.NarrowF16)
	case from == tensor.F32 && to == tensor.BF16:
		return loop1(lw.table.NarrowBF16)
	case from == tensor.F16 && to == tensor.F32:
		return loop1(lw.table.WidenF16)
	case from == tensor.BF16 && to == tensor.F32:
		return loop1(lw.table.WidenBF16)
	}
	switch from {
	case tensor.F16:
		return castFromHalf[element.Float16](to)
	case tensor.BF16:
		return castFromHalf[element.BFloat16](to)
	}
	return numericBy[from].castTo(to)
}

func (numericOf[T]) castTo(to tensor.DType) loop {
	var one T = 1
	isFloat := one/2 != 0
	switch to {
	case tensor.F32:
		return map1(func(x T) float32 { return float32(x) })
	case tensor.F64:
		return map1(func(x T) float64 { return float64(x) })
	case tensor.F16:
		return map1(func(x T) element.Float16 { return element.ToFloat16(float32(x)) })
	case tensor.BF16:
		return map1(func(x T) element.BFloat16 { return element.ToBFloat16(float32(x)) })
	case tensor.Bool:
		return map1(func(x T) uint8 { return truth(x != 0) })
	case tensor.I32:
		if isFloat {
			return map1(func(x T) int32 { return toI32(float64(x)) })
		}
		return map1(func(x T) int32 { return int32(x) })
	case tensor.I64:
		if isFloat {
			return map1(func(x T) int64 { return toI64(float64(x)) })
		}
		return map1(func(x T) int64 { return int64(x) })
	}
	if isFloat {
		return map1(func(x T) uint8 { return toU8(float64(x)) })
	}
	return map1(func(x T) uint8 { return uint8(x) })
}

// castFromHalf goes by way of f32, which has all of its values.
func castFromHalf[H interface {
	element.Float16 | element.BFloat16
	Float32() float32
}](to tensor.DType) loop {
	switch to {
	case tensor.F64:
		return map1(func(x H) float64 { return float64(x.Float32()) })
	case tensor.Bool:
		return map1(func(x H) uint8 { return truth(x.Float32() != 0) })
	case tensor.I32:
		return map1(func(x H) int32 { return toI32(float64(x.Float32())) })
	case tensor.I64:
		return map1(func(x H) int64 { return toI64(float64(x.Float32())) })
	case tensor.F16:
		return map1(func(x H) element.Float16 { return element.ToFloat16(x.Float32()) })
	case tensor.BF16:
		return map1(func(x H) element.BFloat16 { return element.ToBFloat16(x.Float32()) })
	}
	return map1(func(x H) uint8 { return toU8(float64(x.Float32())) })
}
