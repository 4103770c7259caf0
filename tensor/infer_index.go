package tensor

import (
	"fmt"
	"math"
)

// indexDType checks that operand i is an index tensor.
func (c *inference) indexDType(i int) error {
	if c.dt[i] != I32 && c.dt[i] != I64 {
		return fmt.Errorf("%w: indices of %v; expected i32 or i64", ErrDType, c.dt[i])
	}
	return nil
}

func (c *inference) indexed() error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if _, err := c.dims(c.ints, len(c.sh[0])); err != nil {
		return err
	}
	if err := c.indexDType(1); err != nil {
		return err
	}
	if len(c.dt) == 3 && c.dt[2] != c.dt[0] {
		return fmt.Errorf("%w: source of %v into %v", ErrDType, c.dt[2], c.dt[0])
	}
	return nil
}

// selected returns the shape of x with idx's dims in place of dim.
func selected(x, idx Shape, dim int) Shape {
	s := make(Shape, 0, len(x)+len(idx))
	s = append(append(s, x[:dim]...), idx...)
	return append(s, x[dim+1:]...)
}

func inferIndexSelect(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	s := selected(c.sh[0], c.sh[1], int(c.ints[0]))
	if err := s.Check(c.dt[0]); err != nil {
		return err
	}
	return c.give(c.dt[0], s)
}

func inferIndexAdd(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	if want := selected(c.sh[0], c.sh[1], int(c.ints[0])); !c.sh[2].Equal(want) {
		return c.shapeErr("source is %v, expected %v", c.sh[2], want)
	}
	return inferSame(c)
}

// sameButDim checks the indices of gather and scatter_add. They may be larger than x only
// in the dim that they index.
func (c *inference) sameButDim() error {
	x, idx := c.sh[0], c.sh[1]
	if len(x) != len(idx) {
		return c.shapeErr("indices are %v, expected as many dims as %v", idx, x)
	}
	for i := range x {
		if i != int(c.ints[0]) && idx[i] > x[i] {
			return c.shapeErr("indices %v reach beyond %v in dim %d", idx, x, i)
		}
	}
	return nil
}

func inferGather(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	if err := c.sameButDim(); err != nil {
		return err
	}
	return c.give(c.dt[0], c.sh[1])
}

func inferScatterAdd(c *inference) error {
	if err := c.indexed(); err != nil {
		return err
	}
	if err := c.sameButDim(); err != nil {
		return err
	}
	if !c.sh[2].Equal(c.sh[1]) {
		return c.shapeErr("source is %v, indices are %v; expected equal shapes", c.sh[2], c.sh[1])
	}
	return inferSame(c)
}

func inferOneHot(c *inference) error {
	if err := c.wantInts(2); err != nil {
		return err
	}
	if err := c.indexDType(0); err != nil {
		return err
	}
	if !validDType(c.ints[0]) || c.ints[1] < 0 || c.ints[1] > math.MaxInt32 {
		return c.shapeErr("one_hot of %d classes", c.ints[1])
	}
	s := append(append(Shape(nil), c.sh[0]...), int(c.ints[1]))
	if err := s.Check(DType(c.ints[0])); err != nil {
		return err
	}
	return c.give(DType(c.ints[0]), s)
}
