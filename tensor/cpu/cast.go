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

// castLoop returns the loop that converts from one dtype to another.
func (lw *lowerer) castLoop(from, to tensor.DType) loop {
	k, p := lw.table, lw.plain
	switch {
	case from == to, from == tensor.Bool && to == tensor.U8:
		return movesBySize[from.Size()].copies()
	case from.IsHalf() && to == tensor.Bool:
		return loop1(p.HalfToBool)
	}
	switch from {
	case tensor.F16:
		return lw.castFromHalf(k.WidenF16, to)
	case tensor.BF16:
		return lw.castFromHalf(k.WidenBF16, to)
	case tensor.F32:
		return castTo(k, to, nil, k.Double, k.ToI32, k.ToI64, p.F32ToU8, p.F32ToBool)
	case tensor.F64:
		return castTo(k, to, k.Single, nil, lw.table64.ToI32, lw.table64.ToI64, p.F64ToU8, p.F64ToBool)
	case tensor.I32:
		return castTo(k, to, p.I32ToF32, p.I32ToF64, nil, p.I32ToI64, p.I32ToU8, p.I32ToBool)
	case tensor.I64:
		return castTo(k, to, casts[int64, float32], casts[int64, float64], p.I64ToI32, nil, p.I64ToU8, p.I64ToBool)
	}
	return castTo(k, to, p.U8ToF32, p.U8ToF64, p.U8ToI32, p.U8ToI64, nil, p.U8ToBool)
}

// castTo returns the loop of the conversion from T to one of the other dtypes. Numbers
// become one of 16 bits by way of float32; first is nil if they are float32.
func castTo[T any](k *kernel.Table[float32], to tensor.DType, first func(dst []float32, x []T), f64 func(dst []float64, x []T),
	i32 func(dst []int32, x []T), i64 func(dst []int64, x []T), u8, truths func(dst []uint8, x []T)) loop {
	switch to {
	case tensor.F16:
		return toHalf(first, k.NarrowF16)
	case tensor.BF16:
		return toHalf(first, k.NarrowBF16)
	case tensor.F32:
		return loop1(first)
	case tensor.F64:
		return loop1(f64)
	case tensor.I32:
		return loop1(i32)
	case tensor.I64:
		return loop1(i64)
	case tensor.Bool:
		return loop1(truths)
	}
	return loop1(u8)
}

// castFromHalf goes by way of f32, which has all values of the type that widen takes.
func (lw *lowerer) castFromHalf(widen func(dst []float32, x []uint16), to tensor.DType) loop {
	k := lw.table
	switch to {
	case tensor.F32:
		return loop1(widen)
	case tensor.F64:
		return fromHalf(widen, k.Double)
	case tensor.I32:
		return fromHalf(widen, k.ToI32)
	case tensor.I64:
		return fromHalf(widen, k.ToI64)
	case tensor.F16:
		return fromHalf(widen, k.NarrowF16)
	case tensor.BF16:
		return fromHalf(widen, k.NarrowBF16)
	}
	return fromHalf(widen, lw.plain.F32ToU8)
}
