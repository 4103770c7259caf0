package tensor

import "math"

// selected returns the shape of x with idx's dims in place of the dim that is indexed.
func selected(c *inference) (Shape, error) {
	if _, err := c.dims(c.ints, len(c.sh[0])); err != nil {
		return nil, err
	}
	x, idx, dim := c.sh[0], c.sh[1], c.ints[0]
	s := append(append(c.room(), x[:dim]...), idx...)
	return append(s, x[dim+1:]...), nil
}

func indexAddShape(c *inference) (Shape, error) {
	want, err := selected(c)
	if err == nil && !c.sh[2].Equal(want) {
		err = c.shapeErr("source is %v, expected %v", c.sh[2], want)
	}
	return c.sh[0], err
}

// gatherShape checks the indices of gather and scatter_add. They may be larger than x
// only in the dim that they index.
func gatherShape(c *inference) (Shape, error) {
	x, idx := c.sh[0], c.sh[1]
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return nil, err
	}
	if len(x) != len(idx) {
		return nil, c.shapeErr("indices are %v, expected as many dims as %v", idx, x)
	}
	for i := range x {
		if i != int(c.ints[0]) && idx[i] > x[i] {
			return nil, c.shapeErr("indices %v reach beyond %v in dim %d", idx, x, i)
		}
	}
	return idx, nil
}

func scatterAddShape(c *inference) (Shape, error) {
	idx, err := gatherShape(c)
	if err == nil && !c.sh[2].Equal(idx) {
		err = c.shapeErr("source is %v, indices are %v; expected equal shapes", c.sh[2], idx)
	}
	return c.sh[0], err
}

func oneHotShape(c *inference) (Shape, error) {
	if !validDType(c.ints[0]) || c.ints[1] < 0 || c.ints[1] > math.MaxInt32 {
		return nil, c.shapeErr("one_hot of %d classes", c.ints[1])
	}
	c.outDT = DType(c.ints[0])
	return append(append(c.room(), c.sh[0]...), int(c.ints[1])), nil
}
