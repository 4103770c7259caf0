package shard

import "github.com/ringside-go/ringside/tensor"

// anyFold lists the folds that commute with operations that only move elements.
var anyFold = []Fold{Sum, Mean, Max, Min, Prod}

func (c *call) view() {
	x := c.sh[0]
	switch c.op {
	case tensor.OpReshape:
		for d := range x {
			if e, ok := c.reshaped(d); ok {
				c.add(Shard(e), Shard(d))
			}
		}
	case tensor.OpPermute:
		for e, d := range c.ints {
			c.add(Shard(e), Shard(int(d)))
		}
	case tensor.OpBarrier:
		c.leading(len(x), 1, Placement{})
	case tensor.OpExpand:
		for e := range c.out {
			if p := c.broadcast(0, e); p != Replicate {
				c.add(Shard(e), p)
			}
		}
	case tensor.OpSlice:
		for d, n := range x {
			switch {
			case wholeSlice(c.ints, d, n):
				c.add(Shard(d), Shard(d))
			case 2*c.out.Elems() <= x.Elems():
				// A small piece of a large tensor: each rank puts its part among zeros.
				if c.odt == tensor.Bool {
					c.add(Partial(Max), Shard(d))
				} else {
					c.add(Partial(Sum), Shard(d))
				}
			}
		}
	}
	if !c.grows(0) {
		c.through(0, anyFold...)
	}
}

// reshaped returns the dim of the result that is sharded if dim d of the operand is. Both
// must be the outermost of dims with the same elements together, and either be equal or
// have chunks of equal size.
func (c *call) reshaped(d int) (int, bool) {
	x := c.sh[0]
	if x.Elems() == 0 {
		return 0, false
	}
	before := x[:d].Elems()
	n := 1
	for e, size := range c.out {
		if n == before && size > 1 {
			return e, size == x[d] || size%c.ranks == 0 && x[d]%c.ranks == 0
		}
		n *= size
	}
	return 0, false
}

func (c *call) movement() {
	x := c.sh[0]
	dim := 0
	if len(c.ints) > 0 {
		dim = int(c.ints[0])
	}
	switch c.op {
	case tensor.OpConcat:
		for d := range x {
			if d != dim {
				c.all(Shard(d))
			}
		}
		for _, f := range anyFold {
			if f.folds(c.odt) {
				c.all(Partial(f))
			}
		}
	case tensor.OpPad:
		for d := range x {
			if c.ints[2*d] == 0 && c.ints[2*d+1] == 0 {
				c.add(Shard(d), Shard(d))
			}
		}
	case tensor.OpTril, tensor.OpTriu: // the diagonal couples the last two dims
		c.leading(len(x), 1, Placement{})
		c.through(0, anyFold...)
	case tensor.OpIndexSelect:
		idx := len(c.sh[1])
		for d := range x {
			switch {
			case d < dim:
				c.add(Shard(d), Shard(d), Replicate)
			case d > dim:
				c.add(Shard(d+idx-1), Shard(d), Replicate)
			}
		}
		for j := range idx {
			c.add(Shard(dim+j), Replicate, Shard(j))
		}
		if !c.grows(0) {
			c.through(0, anyFold...)
		}
	case tensor.OpIndexAdd:
		idx := len(c.sh[1])
		for d := range x {
			switch {
			case d < dim:
				c.add(Shard(d), Shard(d), Replicate, Shard(d))
			case d > dim:
				c.add(Shard(d), Shard(d), Replicate, Shard(d+idx-1))
			}
		}
		for j := range idx { // the gradient of an embedding: every rank adds its rows
			c.add(Partial(Sum), Partial(Sum), Shard(j), Shard(dim+j))
		}
		c.add(Partial(Sum), Partial(Sum), Replicate, Partial(Sum))
	case tensor.OpGather, tensor.OpScatterAdd:
		c.scattered(dim)
	case tensor.OpOneHot:
		c.leading(len(x), 1, Placement{})
	}
}

// scattered adds the choices of gather and scatter_add, whose indices have the dims of x:
// a dim other than dim may be sharded in all operands where it has one size.
func (c *call) scattered(dim int) {
	x, idx := c.sh[0], c.sh[1]
	add := c.op == tensor.OpScatterAdd
	for d := range x {
		s := Shard(d)
		switch {
		case d != dim && x[d] == idx[d] && add:
			c.add(s, s, s, s)
		case d != dim && x[d] == idx[d]:
			c.add(s, s, s)
		case d == dim && add:
			c.add(Partial(Sum), Partial(Sum), s, s)
		case d == dim:
			c.add(s, Replicate, s)
		}
	}
	if add {
		c.add(Partial(Sum), Partial(Sum), Replicate, Partial(Sum))
	} else if !c.grows(0) {
		c.through(0, anyFold...)
	}
}
