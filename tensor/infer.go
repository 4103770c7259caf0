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
// One inference is reused for all instructions of a session: dt, sh, ints and outShape
// are valid only until the next one.
type inference struct {
	op   Op
	dt   []DType
	sh   []Shape
	ints []int64

	outDT    DType
	outShape Shape

	// Shape functions take the memory of a new shape from bufs, in turn, so that two of
	// them are valid at a time.
	bufs [2][MaxRank]int
	turn int
}

// room returns an empty shape with room for MaxRank dims, which is valid until the call
// after the next one.
func (c *inference) room() Shape {
	c.turn ^= 1
	return c.bufs[c.turn][:0]
}

// of returns a shape of these dims, as room does.
func (c *inference) of(dims ...int) Shape { return append(c.room(), dims...) }

// infer computes the dtype and shape of the result. The dtype is that of the tensors,
// unless op's shape function sets another. Operations that compute do not accept halves:
// the recorder widens them.
func (c *inference) infer(op *OpInfo) error {
	native := movesHalves(c.op)
	for _, d := range c.dt {
		if d.IsStorage() && !native {
			return fmt.Errorf("%w: %v; expected %v, to which it is cast before", ErrDType, d, d.Wide())
		}
	}
	if n := intCounts[c.op]; n >= 0 && len(c.ints) != n {
		return c.shapeErr("%d integer attributes, expected %d", len(c.ints), n)
	}
	var err error
	if c.outDT, err = c.common(op); err != nil {
		return err
	}
	if c.outShape, err = op.shape(c); err != nil {
		return err
	}
	if len(c.sh) == 0 || !c.outShape.Equal(c.sh[0]) {
		if err := c.outShape.Check(); err != nil {
			return err
		}
	}
	if c.outDT.IsStorage() && !native {
		return fmt.Errorf("%w: %v; expected %v, which is cast to it", ErrDType, c.outDT, c.outDT.Wide())
	}
	return nil
}

// movesHalves reports whether op accepts F16 and BF16 without widening.
func movesHalves(op Op) bool { return moving[op] }

var moving = func() (m [opLimit]bool) {
	for op, info := range opTable {
		m[op] = info.Class == ClassView
	}
	for _, op := range []Op{OpCast, OpConcat, OpPad, OpTril, OpTriu, OpIndexSelect, OpGather} {
		m[op] = true
	}
	return m
}()

func (c *inference) shapeErr(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrShape}, a...)...)
}

func (c *inference) dtypeErr(want string) error {
	return fmt.Errorf("%w: expected %s", ErrDType, want)
}

// wantInts checks the number of integer attributes where it depends on the rank.
func (c *inference) wantInts(n int) error {
	if len(c.ints) != n {
		return c.shapeErr("%d integer attributes, expected %d", len(c.ints), n)
	}
	return nil
}

// common returns the one dtype of all tensor operands but the one apart, which it checks
// as well. It is Invalid if there are none.
func (c *inference) common(op *OpInfo) (DType, error) {
	d := Invalid
	for i, x := range c.dt {
		switch {
		case i+1 == op.apart && c.op == OpWhere && x != Bool:
			return d, fmt.Errorf("%w: a condition of %v; expected bool", ErrDType, x)
		case i+1 == op.apart && c.op != OpWhere && x != I32 && x != I64:
			return d, fmt.Errorf("%w: indices of %v; expected i32 or i64", ErrDType, x)
		case i+1 == op.apart || x == Invalid:
		case d == Invalid:
			d = x
		case d != x:
			return d, fmt.Errorf("%w: %v and %v in one instruction", ErrDType, d, x)
		}
	}
	switch {
	case d == Invalid && len(c.dt) > 0 && c.op != OpOneHot:
		return d, c.dtypeErr("at least one tensor")
	case op.takes == numbers && d == Bool:
		return d, c.dtypeErr("a number, not bool (Cast first)")
	case op.takes == floats && !d.IsFloat():
		return d, fmt.Errorf("%w: %v; expected a float", ErrDType, d)
	case op.takes == bools && d != Bool:
		return d, fmt.Errorf("%w: %v; expected bool", ErrDType, d)
	}
	return d, nil
}

// shapeOf returns integer attributes as a shape, as room does.
func (c *inference) shapeOf(ints []int64) (Shape, error) {
	if len(ints) > MaxRank {
		return nil, fmt.Errorf("%w: %d dims, at most %d", ErrShape, len(ints), MaxRank)
	}
	s := c.room()
	for i, n := range ints {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("%w: dim %d is %d; expected 0 to %d", ErrShape, i, n, math.MaxInt32)
		}
		s = append(s, int(n))
	}
	return s, nil
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
