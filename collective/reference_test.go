package collective

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// The reference: reductions one element at a time, in plain Go, by the order that the
// package promises.

// apply is one step of a fold of floats.
func apply[F float32 | float64](op Op, a, b F) F {
	switch op {
	case Sum, Mean:
		return a + b
	case Prod:
		return a * b
	case Min:
		if a != a || b != b {
			return a + b
		}
		if a == 0 && b == 0 && math.Signbit(float64(b)) || b < a {
			return b
		}
		return a
	case Max:
		if a != a || b != b {
			return a + b
		}
		if a == 0 && b == 0 && !math.Signbit(float64(b)) || b > a {
			return b
		}
		return a
	}
	panic(fmt.Sprintf("%v of floats", op))
}

// applyInt is one step of a fold of integers.
func applyInt[I int64 | int32 | uint8](op Op, a, b I) I {
	switch op {
	case Sum:
		return a + b
	case Prod:
		return a * b
	case Min:
		return min(a, b)
	case Max:
		return max(a, b)
	case And:
		return a & b
	case Or:
		return a | b
	case Xor:
		return a ^ b
	}
	panic(fmt.Sprintf("%v of integers", op))
}

// foldBy folds one element of all ranks: inside each host from the left, then the hosts
// from the left.
func foldBy[A any](l layout, at func(rank int) A, step func(a, b A) A) A {
	var total A
	for h, ranks := range l.hosts {
		part := at(ranks[0])
		for _, r := range ranks[1:] {
			part = step(part, at(r))
		}
		if h == 0 {
			total = part
		} else {
			total = step(total, part)
		}
	}
	return total
}

// reference is what every rank's all-reduce of srcs gives.
func reference[T Element](l layout, op Op, srcs [][]T) []T {
	out := make([]T, len(srcs[0]))
	scale := 1.0
	if op == Mean {
		scale = 1 / float64(len(srcs))
	}
	for i := range out {
		switch s := any(srcs).(type) {
		case [][]float64:
			x := foldBy(l, func(r int) float64 { return s[r][i] }, func(a, b float64) float64 { return apply(op, a, b) })
			out[i] = any(x * scale).(T)
		case [][]float32:
			x := foldBy(l, func(r int) float32 { return s[r][i] }, func(a, b float32) float32 { return apply(op, a, b) })
			out[i] = any(x * float32(scale)).(T)
		case [][]Float16:
			x := foldBy(l, func(r int) float32 { return s[r][i].Float32() }, func(a, b float32) float32 { return apply(op, a, b) })
			out[i] = any(ToFloat16(x * float32(scale))).(T)
		case [][]BFloat16:
			x := foldBy(l, func(r int) float32 { return s[r][i].Float32() }, func(a, b float32) float32 { return apply(op, a, b) })
			out[i] = any(ToBFloat16(x * float32(scale))).(T)
		case [][]int64:
			out[i] = any(foldBy(l, func(r int) int64 { return s[r][i] }, func(a, b int64) int64 { return applyInt(op, a, b) })).(T)
		case [][]int32:
			out[i] = any(foldBy(l, func(r int) int32 { return s[r][i] }, func(a, b int32) int32 { return applyInt(op, a, b) })).(T)
		case [][]uint8:
			out[i] = any(foldBy(l, func(r int) uint8 { return s[r][i] }, func(a, b uint8) uint8 { return applyInt(op, a, b) })).(T)
		}
	}
	return out
}

// referenceBytes is reference on bytes, for comms.
func referenceBytes(l layout, op element.Reduction, dt element.DType, scale float64, srcs [][]byte) []byte {
	o := map[element.Reduction]Op{element.Sum: Sum, element.Prod: Prod, element.Min: Min, element.Max: Max, element.And: And, element.Or: Or, element.Xor: Xor}[op]
	if scale != 1 {
		o = Mean // of as many as the scale says
	}
	switch dt {
	case element.F64:
		return refBytes[float64](l, o, scale, srcs)
	case element.F32:
		return refBytes[float32](l, o, scale, srcs)
	case element.F16:
		return refBytes[Float16](l, o, scale, srcs)
	case element.BF16:
		return refBytes[BFloat16](l, o, scale, srcs)
	case element.I64:
		return refBytes[int64](l, o, scale, srcs)
	case element.I32:
		return refBytes[int32](l, o, scale, srcs)
	}
	return refBytes[uint8](l, o, scale, srcs)
}

func refBytes[T Element](l layout, op Op, scale float64, srcs [][]byte) []byte {
	typed := make([][]T, len(srcs))
	for i, s := range srcs {
		typed[i] = make([]T, len(s)/dtypeOf[T]().Size())
		copy(bytesOf(typed[i]), s)
	}
	if op != Mean {
		return bytesOf(reference(l, op, typed))
	}
	// The scale may be that of a larger group than this fold's: sum, then multiply.
	var out []T
	switch s := any(typed).(type) {
	case [][]float64:
		x := reference(l, Sum, s)
		for i := range x {
			x[i] *= scale
		}
		out = any(x).([]T)
	case [][]float32:
		x := reference(l, Sum, s)
		for i := range x {
			x[i] *= float32(scale)
		}
		out = any(x).([]T)
	default:
		if math.Round(1/scale) != float64(len(srcs)) {
			panic("the mean of 16-bit floats over another number of ranks")
		}
		out = reference(l, Mean, typed)
	}
	return bytesOf(out)
}

// input is count elements of one rank, the same in every run. The values of floats differ
// in size so that another order of additions gives other bits; those of products stay
// near 1.
func input[T Element](op Op, count, rank int) []T {
	rng := rand.New(rand.NewPCG(uint64(op)<<32|uint64(count), uint64(rank)<<8|uint64(dtypeOf[T]())))
	out := make([]T, count)
	real := func() float32 {
		if op == Prod {
			return 0.5 + rng.Float32()
		}
		return float32(rng.NormFloat64()) * float32(math.Exp2(float64(rng.IntN(12)-6)))
	}
	for i := range out {
		switch s := any(out).(type) {
		case []float64:
			s[i] = float64(real()) * (1 + rng.Float64())
		case []float32:
			s[i] = real()
		case []Float16:
			s[i] = ToFloat16(real())
		case []BFloat16:
			s[i] = ToBFloat16(real())
		case []int64:
			s[i] = int64(rng.Uint64())
		case []int32:
			s[i] = int32(rng.Uint32())
		case []uint8:
			s[i] = uint8(rng.Uint32())
		}
	}
	return out
}

// opsOf is the operations that an element type has.
func opsOf[T Element]() []Op {
	var out []Op
	for _, op := range Ops() {
		if err := (&Group{size: 2}).checkFold(&protocol.Call{Op: op, DType: dtypeOf[T]()}); err == nil {
			out = append(out, op)
		}
	}
	return out
}
