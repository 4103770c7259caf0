package collective

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// Float16 is the bits of an IEEE 754 binary16. Reductions of it accumulate in float32 and round once.
type Float16 uint16

// BFloat16 is the bits of a bfloat16, the upper half of a float32. Reductions of it accumulate in float32 and round once.
type BFloat16 uint16

// ToFloat16 rounds x to the nearest, ties to even; what is too large becomes infinite.
func ToFloat16(x float32) Float16 {
	var out [1]Float16
	kernel.Narrow(bytesOf(out[:]), bytesOf([]float32{x}), plan.F16, 1)
	return out[0]
}

// ToBFloat16 rounds x to the nearest, ties to even.
func ToBFloat16(x float32) BFloat16 {
	var out [1]BFloat16
	kernel.Narrow(bytesOf(out[:]), bytesOf([]float32{x}), plan.BF16, 1)
	return out[0]
}

// Float32 is x, exactly.
func (x Float16) Float32() float32 {
	var out [1]float32
	kernel.Widen(bytesOf(out[:]), bytesOf([]Float16{x}), plan.F16)
	return out[0]
}

// Float32 is x, exactly.
func (x BFloat16) Float32() float32 {
	var out [1]float32
	kernel.Widen(bytesOf(out[:]), bytesOf([]BFloat16{x}), plan.BF16)
	return out[0]
}

// Element is what the slices of a collective may hold.
type Element interface {
	float64 | float32 | Float16 | BFloat16 | int64 | int32 | uint8
}

// dtypeOf is the element type's number in calls.
func dtypeOf[T Element]() plan.DType {
	var zero T
	switch any(zero).(type) {
	case float64:
		return plan.F64
	case float32:
		return plan.F32
	case Float16:
		return plan.F16
	case BFloat16:
		return plan.BF16
	case int64:
		return plan.I64
	case int32:
		return plan.I32
	}
	return plan.U8
}

// Op is how a reduction combines elements.
//
// Floats: Min and Max return NaN if any element is one, and take -0 as less than +0. Integers: Sum and Prod wrap
// around; Mean is refused, for it would have to say how it rounds. And, Or and Xor are for integers only.
type Op uint8

// The operations.
const (
	Sum Op = iota
	Mean
	Prod
	Min
	Max
	And
	Or
	Xor
)

// Ops lists the operations in the order of their numbers.
func Ops() []Op { return []Op{Sum, Mean, Prod, Min, Max, And, Or, Xor} }

func (o Op) String() string {
	names := [...]string{"sum", "mean", "prod", "min", "max", "and", "or", "xor"}
	if int(o) >= len(names) {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return names[o]
}

// fold is the kernels' operation for o among n ranks, and what they multiply the result by.
func (o Op) fold(dt plan.DType, n int) (op plan.Op, scale float64, err error) {
	scale = 1
	switch o {
	case Sum:
		op = plan.Sum
	case Mean:
		op, scale = plan.Sum, 1/float64(n)
		if !dt.Float() {
			return op, 1, fmt.Errorf("%w: mean of %v, expected a float type", ErrOp, dt)
		}
	case Prod:
		op = plan.Prod
	case Min:
		op = plan.Min
	case Max:
		op = plan.Max
	case And:
		op = plan.And
	case Or:
		op = plan.Or
	case Xor:
		op = plan.Xor
	default:
		return op, 1, fmt.Errorf("%w: %v", ErrOp, o)
	}
	if err := kernel.Supported(op, dt); err != nil {
		return op, 1, fmt.Errorf("%w: %w", ErrOp, err)
	}
	return op, scale, nil
}
