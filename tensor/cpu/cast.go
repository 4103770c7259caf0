package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
)

// Conversions of the op table: a float is cut toward zero and clamped, NaN is 0; integers
// wrap as Go's do; numbers become an f16 or bf16 by way of f32.

func toU8(x float64) uint8 { return uint8(min(max(kernel.CutI64(x), 0), math.MaxUint8)) }

// convert returns a scalar as T.
func convert[T number](x float64) T {
	var z T
	switch any(z).(type) {
	case int32:
		return T(kernel.CutI32(x))
	case int64:
		return T(kernel.CutI64(x))
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
	case from == tensor.F32 && to == tensor.F64:
		return loop1(lw.table.Double)
	case from == tensor.F64 && to == tensor.F32:
		return loop1(lw.table.Single)
	case from == tensor.F32 && to == tensor.I32:
		return loop1(lw.table.ToI32)
	case from == tensor.F32 && to == tensor.I64:
		return loop1(lw.table.ToI64)
	case from == tensor.F64 && to == tensor.I32:
		return loop1(lw.table64.ToI32)
	case from == tensor.F64 && to == tensor.I64:
		return loop1(lw.table64.ToI64)
	case from == tensor.F64 && to == tensor.F16:
		return toHalf(lw.table.Single, lw.table.NarrowF16)
	case from == tensor.F64 && to == tensor.BF16:
		return toHalf(lw.table.Single, lw.table.NarrowBF16)
	}
	switch from {
	case tensor.F16:
		return castFromHalf(lw.table, lw.table.WidenF16, to)
	case tensor.BF16:
		return castFromHalf(lw.table, lw.table.WidenBF16, to)
	}
	return numericBy[from].castTo(lw.table, to)
}

func (numericOf[T]) castTo(k *kernel.Table[float32], to tensor.DType) loop {
	var one T = 1
	isFloat := one/2 != 0
	switch to {
	case tensor.F32:
		return loop1(casts[T, float32])
	case tensor.F64:
		return loop1(casts[T, float64])
	case tensor.F16:
		return toHalf(casts[T, float32], k.NarrowF16)
	case tensor.BF16:
		return toHalf(casts[T, float32], k.NarrowBF16)
	case tensor.Bool:
		return loop1(truths[T])
	case tensor.I32: // of integers
		return loop1(casts[T, int32])
	case tensor.I64:
		return loop1(casts[T, int64])
	}
	if isFloat {
		return map1(func(x T) uint8 { return toU8(float64(x)) })
	}
	return loop1(casts[T, uint8])
}

// castFromHalf goes by way of f32, which has all values of the type that widen takes.
func castFromHalf(k *kernel.Table[float32], widen func(dst []float32, x []uint16), to tensor.DType) loop {
	switch to {
	case tensor.F64:
		return fromHalf(widen, k.Double)
	case tensor.Bool:
		return fromHalf(widen, truths[float32])
	case tensor.I32:
		return fromHalf(widen, k.ToI32)
	case tensor.I64:
		return fromHalf(widen, k.ToI64)
	case tensor.F16:
		return fromHalf(widen, k.NarrowF16)
	case tensor.BF16:
		return fromHalf(widen, k.NarrowBF16)
	}
	return fromHalf(widen, func(dst []uint8, x []float32) {
		for i := range dst {
			dst[i] = toU8(float64(x[i]))
		}
	})
}
