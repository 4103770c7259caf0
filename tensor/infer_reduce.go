package tensor

// reduceShape reduces all dims if none is listed.
func reduceShape(c *inference) (Shape, error) {
	if len(c.ints) < 1 || c.ints[0]&^1 != 0 {
		return nil, c.shapeErr("keepdim must be 0 or 1")
	}
	x := c.sh[0]
	mask, err := c.dims(c.ints[1:], len(x))
	if err != nil {
		return nil, err
	}
	all := len(c.ints) == 1
	arg := c.op == OpArgmax || c.op == OpArgmin
	if arg && len(c.ints) > 2 {
		return nil, c.shapeErr("%v takes one dim or none", c.op)
	}
	out, empty := c.room(), false
	for i, n := range x {
		switch {
		case !all && mask&(1<<i) == 0:
			out = append(out, n)
			continue
		case c.ints[0] == 1:
			out = append(out, 1)
		}
		empty = empty || n == 0
	}
	switch c.op {
	case OpAny, OpAll:
	case OpSum, OpProd:
		if !c.outDT.IsFloat() {
			c.outDT = I64
		}
	case OpMean:
		if !c.outDT.IsFloat() {
			c.outDT = F32
		}
	default:
		if empty {
			return nil, c.shapeErr("%v over a dim of 0", c.op)
		}
		if arg {
			c.outDT = I64
		}
	}
	return out, nil
}

func cumsumShape(c *inference) (Shape, error) {
	if !c.outDT.IsFloat() {
		c.outDT = I64
	}
	_, err := c.dims(c.ints[:1], len(c.sh[0]))
	return c.sh[0], err
}

func prodGradShape(c *inference) (Shape, error) {
	mask, err := c.dims(c.ints, len(c.sh[0]))
	if err != nil {
		return nil, err
	}
	want := append(c.room(), c.sh[0]...)
	for i := range want {
		if mask&(1<<i) != 0 || len(c.ints) == 0 {
			want[i] = 1
		}
	}
	return c.sh[0], c.wantDy(c.sh[1], want, nil)
}
