package tensor

import "fmt"

func inferLeaf(c *inference) error { return leaf(c, 1) }

// inferRandom expects attributes that begin with the dtype and the offset of the counter.
func inferRandom(c *inference) error {
	if len(c.ints) > 0 && !DType(c.ints[0]).IsFloat() {
		return c.dtypeErr("a float")
	}
	return leaf(c, 2)
}

func leaf(c *inference, skip int) error {
	if len(c.ints) < skip || !validDType(c.ints[0]) {
		return c.dtypeErr("a dtype as first attribute")
	}
	d := DType(c.ints[0])
	s, err := shapeOf(c.ints[skip:], d)
	if err != nil {
		return err
	}
	if c.op == OpArange && (len(s) != 1 || d == Bool) {
		return c.shapeErr("arange makes one dim of numbers, not %v of %v", s, d)
	}
	return c.give(d, s)
}

func validDType(x int64) bool { return x > 0 && x < 256 && DType(x).Valid() }

func inferSame(c *inference) error {
	if c.dt[0] == Bool {
		return c.dtypeErr("a number, not bool (Cast first)")
	}
	return c.give(c.dt[0], c.sh[0])
}

func inferFloat(c *inference) error {
	if !c.dt[0].IsFloat() {
		return c.dtypeErr("a float")
	}
	return c.give(c.dt[0], c.sh[0])
}

func asFloat(d DType) (DType, error) {
	if !d.IsFloat() {
		return d, fmt.Errorf("%w: %v; expected a float", ErrDType, d)
	}
	return d, nil
}

func asNumber(d DType) (DType, error) {
	if d == Bool {
		return d, fmt.Errorf("%w: bool; expected a number (Cast first)", ErrDType)
	}
	return d, nil
}

func inferFloat2(c *inference) error { return c.elementwise(asFloat) }
func inferArith(c *inference) error  { return c.elementwise(asNumber) }
func inferBool(c *inference) error {
	return c.elementwise(func(d DType) (DType, error) {
		if d != Bool {
			return d, fmt.Errorf("%w: %v; expected bool", ErrDType, d)
		}
		return d, nil
	})
}

func inferCompare(c *inference) error {
	return c.elementwise(func(DType) (DType, error) { return Bool, nil })
}

func inferCast(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if !validDType(c.ints[0]) {
		return c.dtypeErr("a dtype as attribute")
	}
	return c.give(DType(c.ints[0]), c.sh[0])
}

func inferWhere(c *inference) error {
	if c.dt[0] != Bool {
		return c.dtypeErr("a bool condition")
	}
	s, err := c.broadcast()
	if err != nil {
		return err
	}
	a, b := c.dt[1], c.dt[2]
	if a == Invalid {
		a = b
	}
	if b == Invalid {
		b = a
	}
	if a == Invalid || a != b {
		return fmt.Errorf("%w: branches of %v and %v; expected one dtype and at least one tensor", ErrDType, c.dt[1], c.dt[2])
	}
	return c.give(a, s)
}

func inferUpdate(c *inference) error {
	d, err := c.common()
	if err != nil {
		return err
	}
	for _, s := range c.sh[1:] {
		if !s.Equal(c.sh[0]) {
			return c.shapeErr("%v and %v; expected equal shapes", c.sh[0], s)
		}
	}
	if !d.IsFloat() {
		return c.dtypeErr("a float")
	}
	return c.give(d, c.sh[0])
}

func inferDropout(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	return inferFloat(c)
}
