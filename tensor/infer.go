package tensor

import (
	"fmt"
	"math"
)

// inference holds the operands and the result of an operation for its infer function.
// Operands that are scalars in the place of a tensor have dtype Invalid and the scalar
// shape. The tensors of one instruction have one dtype, unless the operation says
// otherwise: the recorder inserts casts, so engines and receivers of programs need no
// promotion rules.
//
// One inference is reused for all instructions of a session: dt, sh and ints are valid
// only during the call.
type inference struct {
	op   Op
	dt   []DType
	sh   []Shape
	ints []int64

	outDT    DType
	outShape Shape
}

// infer computes the dtype and shape of the result. Operations that compute do not accept
// halves: the recorder widens them.
func (c *inference) infer(op *OpInfo) error {
	native := movesHalves(c.op)
	for _, d := range c.dt {
		if d.IsHalf() && !native {
			return fmt.Errorf("%w: %v; expected f32, to which it is cast before", ErrDType, d)
		}
	}
	if err := op.infer(c); err != nil {
		return err
	}
	if c.outDT.IsHalf() && !native {
		return fmt.Errorf("%w: %v; expected f32, which is cast to it", ErrDType, c.outDT)
	}
	return nil
}

// movesHalves reports whether op accepts F16 and BF16 without widening.
func movesHalves(op Op) bool {
	switch op {
	case OpCast, OpConcat, OpPad, OpTril, OpTriu, OpIndexSelect, OpGather:
		return true
	}
	return op.Info().Class == ClassView
}

func (c *inference) give(d DType, s Shape) error {
	c.outDT, c.outShape = d, s
	return nil
}

func (c *inference) shapeErr(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrShape}, a...)...)
}

func (c *inference) dtypeErr(want string) error {
	return fmt.Errorf("%w: expected %s", ErrDType, want)
}

// wantInts checks the number of integer attributes.
func (c *inference) wantInts(n int) error {
	if len(c.ints) != n {
		return c.shapeErr("%d integer attributes, expected %d", len(c.ints), n)
	}
	return nil
}

// common returns the one dtype of all tensor operands.
func (c *inference) common() (DType, error) {
	d := Invalid
	for _, x := range c.dt {
		switch {
		case x == Invalid:
		case d == Invalid:
			d = x
		case d != x:
			return d, fmt.Errorf("%w: %v and %v in one instruction", ErrDType, d, x)
		}
	}
	if d == Invalid {
		return d, c.dtypeErr("at least one tensor")
	}
	return d, nil
}

func (c *inference) broadcast() (Shape, error) {
	out := c.sh[0]
	for _, s := range c.sh[1:] {
		var err error
		if out, err = Broadcast(out, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// elementwise sets the result to the broadcast shape and to the common dtype mapped by f.
func (c *inference) elementwise(f func(DType) (DType, error)) error {
	d, err := c.common()
	if err != nil {
		return err
	}
	s, err := c.broadcast()
	if err != nil {
		return err
	}
	if d, err = f(d); err != nil {
		return err
	}
	return c.give(d, s)
}

// shapeOf returns integer attributes as a checked shape.
func shapeOf(ints []int64, d DType) (Shape, error) {
	if len(ints) > MaxRank {
		return nil, fmt.Errorf("%w: %d dims, at most %d", ErrShape, len(ints), MaxRank)
	}
	s := make(Shape, len(ints))
	for i, n := range ints {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("%w: dim %d is %d; expected 0 to %d", ErrShape, i, n, math.MaxInt32)
		}
		s[i] = int(n)
	}
	return s, s.Check(d)
}

// dims reads a list of distinct dims below rank.
func (c *inference) dims(ints []int64, rank int) (mask uint, err error) {
	for _, d := range ints {
		if d < 0 || d >= int64(rank) {
			return 0, c.shapeErr("dim %d of a tensor with %d dims", d, rank)
		}
		if mask&(1<<d) != 0 {
			return 0, c.shapeErr("dim %d twice", d)
		}
		mask |= 1 << d
	}
	return mask, nil
}
