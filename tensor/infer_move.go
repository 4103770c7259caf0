package tensor

import "math"

func reshapeShape(c *inference) (Shape, error) {
	s, err := c.shapeOf(c.ints)
	if err == nil && s.Elems() != c.sh[0].Elems() {
		err = c.shapeErr("%d elements of %v can't be %v, which has %d", c.sh[0].Elems(), c.sh[0], s, s.Elems())
	}
	return s, err
}

func firstShape(c *inference) (Shape, error) { return c.sh[0], nil }

func permuteShape(c *inference) (Shape, error) {
	x := c.sh[0]
	if err := c.wantInts(len(x)); err != nil {
		return nil, err
	}
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return nil, err
	}
	out := c.room()
	for _, d := range c.ints {
		out = append(out, x[d])
	}
	return out, nil
}

func expandShape(c *inference) (Shape, error) {
	s, err := c.shapeOf(c.ints)
	if err != nil {
		return nil, err
	}
	b, err := broadcast(c.room(), c.sh[0], s)
	if err == nil && !b.Equal(s) {
		err = c.shapeErr("%v doesn't expand to %v", c.sh[0], s)
	}
	return s, err
}

func sliceShape(c *inference) (Shape, error) {
	x := c.sh[0]
	if err := c.wantInts(3 * len(x)); err != nil {
		return nil, err
	}
	out := c.room()
	for i, n := range x {
		start, step, count := c.ints[3*i], c.ints[3*i+1], c.ints[3*i+2]
		if count < 0 || count > int64(n) || step == 0 || step > math.MaxInt32 || step < -math.MaxInt32 {
			return nil, c.shapeErr("slice of dim %d (size %d): %d elements by step %d", i, n, count, step)
		}
		last := start + step*max(count-1, 0)
		if count > 0 && (start < 0 || start >= int64(n) || last < 0 || last >= int64(n)) {
			return nil, c.shapeErr("slice of dim %d (size %d) reads %d to %d", i, n, start, last)
		}
		out = append(out, int(count))
	}
	return out, nil
}

func concatShape(c *inference) (Shape, error) {
	x := c.sh[0]
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return nil, err
	}
	out := append(c.room(), x...)
	for k, s := range c.sh[1:] {
		if len(s) != len(x) {
			return nil, c.shapeErr("operand %d is %v, operand 0 is %v", k+1, s, x)
		}
		for i := range s {
			if i == int(c.ints[0]) {
				out[i] += s[i]
			} else if s[i] != x[i] {
				return nil, c.shapeErr("operand %d is %v, operand 0 is %v: dim %d must agree", k+1, s, x, i)
			}
		}
	}
	return out, nil
}

func padShape(c *inference) (Shape, error) {
	x := c.sh[0]
	if err := c.wantInts(2 * len(x)); err != nil {
		return nil, err
	}
	out := c.room()
	for i, n := range x {
		a, b := c.ints[2*i], c.ints[2*i+1]
		if a < 0 || b < 0 || a > math.MaxInt32 || b > math.MaxInt32 {
			return nil, c.shapeErr("pad of dim %d by %d and %d; expected 0 or more", i, a, b)
		}
		out = append(out, n+int(a)+int(b))
	}
	return out, nil
}

func triangleShape(c *inference) (Shape, error) {
	if len(c.sh[0]) < 2 {
		return nil, c.shapeErr("%v; expected two dims or more", c.sh[0])
	}
	return c.sh[0], nil
}
