package collective

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
)

// Float16 and BFloat16 are 16-bit floating-point elements as they are stored. Reductions of
// them accumulate in float32 and round once.
type (
	Float16  = element.Float16
	BFloat16 = element.BFloat16
)

// ToFloat16 rounds x to the nearest Float16, ties to even.
func ToFloat16(x float32) Float16 { return element.ToFloat16(x) }

// ToBFloat16 rounds x to the nearest BFloat16, ties to even.
func ToBFloat16(x float32) BFloat16 { return element.ToBFloat16(x) }

// Element is what the slices of a collective may hold.
type Element interface {
	float64 | float32 | Float16 | BFloat16 | int64 | int32 | uint8
}

// dtypeOf is the element type's number in calls.
func dtypeOf[T Element]() element.DType {
	var zero T
	switch any(zero).(type) {
	case float64:
		return element.F64
	case float32:
		return element.F32
	case Float16:
		return element.F16
	case BFloat16:
		return element.BF16
	case int64:
		return element.I64
	case int32:
		return element.I32
	}
	return element.U8
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
func (o Op) fold(dt element.DType, n int) (op element.Reduction, scale float64, err error) {
	scale = 1
	switch o {
	case Sum:
		op = element.Sum
	case Mean:
		op, scale = element.Sum, 1/float64(n)
		if !dt.IsFloat() {
			return op, 1, fmt.Errorf("%w: mean of %v, expected a float type", ErrOp, dt)
		}
	case Prod:
		op = element.Prod
	case Min:
		op = element.Min
	case Max:
		op = element.Max
	case And:
		op = element.And
	case Or:
		op = element.Or
	case Xor:
		op = element.Xor
	default:
		return op, 1, fmt.Errorf("%w: %v", ErrOp, o)
	}
	if err := kernel.Supported(op, dt); err != nil {
		return op, 1, fmt.Errorf("%w: %w", ErrOp, err)
	}
	return op, scale, nil
}
