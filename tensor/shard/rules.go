package shard

import "github.com/ringside-go/ringside/tensor"

// choice is one way to run an instruction along one dim of a mesh: how its operands must lie (scalars count as Replicate)
// and how its result does then.
type choice struct {
	in  []Placement
	out Placement
}

// call is an instruction as the rules see it.
type call struct {
	op    tensor.Op
	ints  []int64
	sh    []tensor.Shape // of the operands that are tensors or stand in for one; nil for a number
	dt    []tensor.DType // Invalid for a number
	out   tensor.Shape
	odt   tensor.DType
	ranks int // of the whole mesh: what divides by it divides along any of its dims, and both

	list []choice
}

// rules lists the ways to run c along one dim of a mesh, the way in which every rank does everything first: that
// one is right for any operation, also for one that nobody wrote a rule for.
//
// Along a dim of the mesh a rule speaks of shapes as if that dim were the only one. That composes: what a rank has of an operand
// by one dim of the mesh is itself a tensor, on which the rule holds for the other dim.
func (c *call) rules() []choice {
	c.list = nil
	c.add(Replicate, make([]Placement, len(c.sh))...)
	switch c.op.Info().Class {
	case tensor.ClassElementwise:
		c.elementwise()
	case tensor.ClassReduction:
		c.reduction()
	case tensor.ClassView:
		c.view()
	case tensor.ClassMovement:
		c.movement()
	case tensor.ClassContraction:
		c.contraction()
	case tensor.ClassRow:
		c.row()
	}
	return c.list
}

func (c *call) add(out Placement, in ...Placement) {
	c.list = append(c.list, choice{in, out})
}

// all adds that every operand and the result lie like p.
func (c *call) all(p Placement) {
	in := make([]Placement, len(c.sh))
	for k := range in {
		in[k] = p
	}
	c.add(p, in...)
}

// through adds that a partial operand k, the others being whole, gives a partial result, for every fold.
func (c *call) through(k int, folds ...Fold) {
	for _, f := range folds {
		if c.dt[k] == tensor.Bool && f != Max && f != Min || !c.dt[k].IsFloat() && f == Mean {
			continue
		}
		in := make([]Placement, len(c.sh))
		in[k] = Partial(f)
		c.add(Partial(f), in...)
	}
}

// grows reports whether the result has more elements than operand k: to fold it later would cost more.
func (c *call) grows(k int) bool { return c.out.Elems() > c.sh[k].Elems() }

// broadcast returns how operand k lies when dim d of the result is sharded: its own dim that meets d, or whole if it is stretched.
func (c *call) broadcast(k, d int) Placement {
	j := d - (len(c.out) - len(c.sh[k]))
	if c.dt[k] == tensor.Invalid || j < 0 || c.sh[k][j] != c.out[d] {
		return Replicate
	}
	return Shard(j)
}
