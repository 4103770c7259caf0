package tensor

// leafShape reads the dtype, for random numbers the offset of the counter, and the shape.
func leafShape(c *inference) (Shape, error) {
	random, skip := c.op == OpRand || c.op == OpRandN, 1
	if random {
		skip = 2
	}
	if len(c.ints) < skip || !validDType(c.ints[0]) {
		return nil, c.dtypeErr("a dtype as first attribute")
	}
	c.outDT = DType(c.ints[0])
	if random && !c.outDT.IsFloat() {
		return nil, c.dtypeErr("a float")
	}
	s, err := c.shapeOf(c.ints[skip:])
	if err == nil && c.op == OpArange && (len(s) != 1 || c.outDT == Bool) {
		err = c.shapeErr("arange makes one dim of numbers, not %v of %v", s, c.outDT)
	}
	return s, err
}

func validDType(x int64) bool { return x > 0 && x < 256 && DType(x).Valid() }

// broadcastShape returns the shape that all operands broadcast to.
func broadcastShape(c *inference) (out Shape, err error) {
	out = c.sh[0]
	for _, s := range c.sh[1:] {
		if out, err = broadcast(c.room(), out, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func compareShape(c *inference) (Shape, error) {
	c.outDT = Bool
	return broadcastShape(c)
}

func castShape(c *inference) (Shape, error) {
	if !validDType(c.ints[0]) {
		return nil, c.dtypeErr("a dtype as attribute")
	}
	c.outDT = DType(c.ints[0])
	return c.sh[0], nil
}
