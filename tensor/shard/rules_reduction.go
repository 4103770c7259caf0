package shard

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// folded reports whether a reduction folds dim d.
func (c *call) folded(d int) bool {
	return len(c.ints) == 1 || slices.Contains(c.ints[1:], int64(d))
}

// reduction allows a remaining dim to be sharded, and a folded dim if the fold of the
// ranks' terms is the result.
func (c *call) reduction() {
	fold := NoFold
	switch c.op {
	case tensor.OpSum, tensor.OpMean:
		fold = Sum // a mean is the sum of terms that are divided by the whole count
	case tensor.OpProd:
		fold = Prod
	case tensor.OpAmax, tensor.OpAny:
		fold = Max
	case tensor.OpAmin, tensor.OpAll:
		fold = Min
	}
	to := 0 // the dim of the result
	for d, n := range c.sh[0] {
		folded := c.folded(d)
		switch {
		case !folded:
			c.add(Shard(to), Shard(d))
		case fold == NoFold:
		// Amax and Amin of no elements do not exist.
		case (c.op == tensor.OpAmax || c.op == tensor.OpAmin) && n < c.ranks:
		default:
			c.add(Partial(fold), Shard(d))
		}
		if !folded || c.ints[0] == 1 {
			to++
		}
	}
	switch c.op {
	case tensor.OpSum, tensor.OpMean:
		if c.dt[0] == c.odt { // another type may overflow where this one doesn't
			c.through(0, Sum, Mean)
		}
	case tensor.OpProd:
		if c.dt[0] == c.odt {
			c.through(0, Prod)
		}
	case tensor.OpAmax, tensor.OpAny:
		c.through(0, Max)
	case tensor.OpAmin, tensor.OpAll:
		c.through(0, Min)
	}
}

// foldsShards reports whether a reduction folds a sharded dim.
func (c *call) foldsShards(l Layout) bool {
	return slices.ContainsFunc(l[:], func(p Placement) bool { return p.kind == sharded && c.folded(p.dim) })
}
