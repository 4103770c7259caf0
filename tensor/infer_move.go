package tensor

import "math"

func inferReshape(c *inference) error {
	s, err := shapeOf(c.ints, c.dt[0])
	if err != nil {
		return err
	}
	if s.Elems() != c.sh[0].Elems() {
		return c.shapeErr("%d elements of %v can't be %v, which has %d", c.sh[0].Elems(), c.sh[0], s, s.Elems())
	}
	return c.give(c.dt[0], s)
}

func inferBarrier(c *inference) error {
	if err := c.wantInts(0); err != nil {
		return err
	}
	return c.give(c.dt[0], c.sh[0])
}

func inferPermute(c *inference) error {
	x := c.sh[0]
	if err := c.wantInts(len(x)); err != nil {
		return err
	}
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, d := range c.ints {
		out[i] = x[d]
	}
	return c.give(c.dt[0], out)
}

func inferExpand(c *inference) error {
	s, err := shapeOf(c.ints, c.dt[0])
	if err != nil {
		return err
	}
	b, err := Broadcast(c.sh[0], s)
	if err != nil {
		return err
	}
	if !b.Equal(s) {
		return c.shapeErr("%v doesn't expand to %v", c.sh[0], s)
	}
	return c.give(c.dt[0], s)
}

func inferSlice(c *inference) error {
	x := c.sh[0]
	if err := c.wantInts(3 * len(x)); err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, n := range x {
		start, step, count := c.ints[3*i], c.ints[3*i+1], c.ints[3*i+2]
		if count < 0 || count > int64(n) || step == 0 || step > math.MaxInt32 || step < -math.MaxInt32 {
			return c.shapeErr("slice of dim %d (size %d): %d elements by step %d", i, n, count, step)
		}
		last := start + step*max(count-1, 0)
		if count > 0 && (start < 0 || start >= int64(n) || last < 0 || last >= int64(n)) {
			return c.shapeErr("slice of dim %d (size %d) reads %d to %d", i, n, start, last)
		}
		out[i] = int(count)
	}
	return c.give(c.dt[0], out)
}

func inferConcat(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	d, err := c.common()
	if err != nil {
		return err
	}
	x := c.sh[0]
	if _, err := c.dims(c.ints, len(x)); err != nil {
		return err
	}
	out := append(Shape(nil), x...)
	for k, s := range c.sh[1:] {
		if len(s) != len(x) {
			return c.shapeErr("operand %d is %v, operand 0 is %v", k+1, s, x)
		}
		for i := range s {
			if i == int(c.ints[0]) {
				out[i] += s[i]
			} else if s[i] != x[i] {
				return c.shapeErr("operand %d is %v, operand 0 is %v: dim %d must agree", k+1, s, x, i)
			}
		}
	}
	if err := out.Check(d); err != nil {
		return err
	}
	return c.give(d, out)
}

func inferPad(c *inference) error {
	x := c.sh[0]
	if err := c.wantInts(2 * len(x)); err != nil {
		return err
	}
	out := make(Shape, len(x))
	for i, n := range x {
		a, b := c.ints[2*i], c.ints[2*i+1]
		if a < 0 || b < 0 || a > math.MaxInt32 || b > math.MaxInt32 {
			return c.shapeErr("pad of dim %d by %d and %d; expected 0 or more", i, a, b)
		}
		out[i] = n + int(a) + int(b)
	}
	if err := out.Check(c.dt[0]); err != nil {
		return err
	}
	return c.give(c.dt[0], out)
}

func inferTri(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if len(c.sh[0]) < 2 {
		return c.shapeErr("%v; expected two dims or more", c.sh[0])
	}
	return c.give(c.dt[0], c.sh[0])
}
