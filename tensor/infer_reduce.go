package tensor

// inferReduce reduces all dims if none is listed.
func inferReduce(c *inference) error {
	if len(c.ints) < 1 || c.ints[0]&^1 != 0 {
		return c.shapeErr("keepdim must be 0 or 1")
	}
	x, d := c.sh[0], c.dt[0]
	mask, err := c.dims(c.ints[1:], len(x))
	if err != nil {
		return err
	}
	all := len(c.ints) == 1
	arg := c.op == OpArgmax || c.op == OpArgmin
	if arg && len(c.ints) > 2 {
		return c.shapeErr("%v takes one dim or none", c.op)
	}
	out, empty := make(Shape, 0, len(x)), false
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
		if d != Bool {
			return c.dtypeErr("bool")
		}
	case OpSum, OpProd:
		if !d.IsFloat() {
			d = I64
		}
	case OpMean:
		if !d.IsFloat() {
			d = F32
		}
	default:
		if d == Bool {
			return c.dtypeErr("a number, not bool (Cast first)")
		}
		if empty {
			return c.shapeErr("%v over a dim of 0", c.op)
		}
		if arg {
			d = I64
		}
	}
	return c.give(d, out)
}

func inferCumsum(c *inference) error {
	if err := c.wantInts(2); err != nil {
		return err
	}
	if _, err := c.dims(c.ints[:1], len(c.sh[0])); err != nil {
		return err
	}
	return inferSame(c)
}

func inferProdGrad(c *inference) error {
	mask, err := c.dims(c.ints, len(c.sh[0]))
	if err != nil {
		return err
	}
	want := make(Shape, len(c.sh[0]))
	for i, n := range c.sh[0] {
		want[i] = n
		if mask&(1<<i) != 0 || len(c.ints) == 0 {
			want[i] = 1
		}
	}
	if !c.sh[1].Equal(want) {
		return c.shapeErr("dy is %v, expected %v", c.sh[1], want)
	}
	if _, err := c.common(); err != nil {
		return err
	}
	return inferFloat(c)
}
