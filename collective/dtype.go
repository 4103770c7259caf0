package collective

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Float16 and BFloat16 are 16-bit floating-point elements as they are stored. Reductions
// of them accumulate in float32 and round once.
type (
	Float16  = element.Float16
	BFloat16 = element.BFloat16
)

// ToFloat16 rounds x to the nearest Float16, ties to even.
func ToFloat16(x float32) Float16 { return element.ToFloat16(x) }

// ToBFloat16 rounds x to the nearest BFloat16, ties to even.
func ToBFloat16(x float32) BFloat16 { return element.ToBFloat16(x) }

// Element is the constraint of the elements of a collective's slices.
type Element interface {
	float64 | float32 | Float16 | BFloat16 | int64 | int32 | uint8
}

// dtypeOf returns the element type's number in calls.
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

// Op is how a reduction combines elements. And, Or and Xor are for integers only. Mean is
// for floats only: of integers it would have to say how it rounds.
type Op = element.Reduction

// The operations.
const (
	Sum  = element.Sum
	Mean = element.Mean
	Prod = element.Prod
	Min  = element.Min
	Max  = element.Max
	And  = element.And
	Or   = element.Or
	Xor  = element.Xor
)

// Ops returns all operations.
func Ops() []Op { return append(element.Reductions(), Mean) }

// checkFold makes a mean a scaled sum, and returns ErrOp for an operation that the
// element type does not have.
func (g *Group) checkFold(c *protocol.Call) error {
	if c.Op == Mean {
		if !c.DType.IsFloat() {
			return fmt.Errorf("%w: mean of %v, expected a float type", ErrOp, c.DType)
		}
		c.Op, c.Scale = Sum, 1/float64(g.size)
	}
	c.Scale = c.Factor()
	err := kernel.Supported(c.Op, c.DType)
	if err == nil && c.Scale != 1 && !c.DType.IsFloat() {
		err = fmt.Errorf("%v is not scaled by %v", c.DType, c.Scale)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOp, err)
	}
	return nil
}
