package shard

import "github.com/ringside-go/ringside/tensor"

// elementwise allows any dim to be sharded, with the operands that have it sharded alike.
// Linear operations pass partial operands on.
func (c *call) elementwise() {
	for d := range c.out {
		in := make([]Placement, len(c.sh))
		for k := range in {
			in[k] = c.broadcast(k, d)
		}
		c.add(Shard(d), in...)
	}
	switch c.op {
	case tensor.OpNeg, tensor.OpDropout: // dropout's mask is the same on all ranks
		c.through(0, Sum, Mean)
	case tensor.OpAdd, tensor.OpSub:
		c.both(Sum, Mean)
	case tensor.OpMax:
		c.both(Max)
	case tensor.OpMin:
		c.both(Min)
	case tensor.OpMul:
		c.factor(0)
		c.factor(1)
	case tensor.OpDiv:
		c.factor(0)
	case tensor.OpWhere:
		if c.dt[1] != tensor.Invalid && c.dt[2] != tensor.Invalid && c.dt[1] != tensor.Bool && !c.grows(1) && !c.grows(2) {
			c.add(Partial(Sum), Replicate, Partial(Sum), Partial(Sum))
		}
	default:
		if c.op.Info().Kind == tensor.KindGradient {
			c.factor(1) // linear in dy
		}
	}
}

// both allows two operands that are partial with one fold.
func (c *call) both(folds ...Fold) {
	for _, f := range folds {
		if c.dt[0] != tensor.Invalid && c.dt[1] != tensor.Invalid && !(c.grows(0) && c.grows(1)) && f.folds(c.odt) {
			c.all(Partial(f))
		}
	}
}

// factor allows operand k to be partial.
func (c *call) factor(k int) {
	if c.dt[k] != tensor.Invalid && !c.grows(k) {
		c.through(k, Sum, Mean)
	}
}

// update reports whether op updates state, whose place its result takes.
func update(op tensor.Op) bool { return op.Info().Kind == tensor.KindUpdate }
