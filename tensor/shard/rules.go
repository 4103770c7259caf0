package shard

import "github.com/ringside-go/ringside/tensor"

// choice is one way to run an instruction along one dim of a mesh: the placements of its
// operands (Replicate for scalars) and of its result.
type choice struct {
	in  []Placement
	out Placement
}

// call holds an instruction for its rules.
type call struct {
	op   tensor.Op
	ints []int64
	// sh has the shapes of the tensor operands, nil for a scalar in the place of one.
	sh  []tensor.Shape
	dt  []tensor.DType // Invalid for a scalar
	out tensor.Shape
	odt tensor.DType
	// ranks is the size of the whole mesh: a size that it divides is divided by each dim
	// of the mesh, and by both.
	ranks int

	list []choice
}

// rules returns the ways to run c along one dim of a mesh. The first, in which every rank
// does everything, is correct for every operation, even one without rules.
//
// A rule treats shapes as if its dim of the mesh were the only one. Rules compose: a
// rank's part of an operand along one dim of the mesh is itself a tensor, to which the
// rule for the other dim applies.
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

// all adds the choice in which every operand and the result have placement p.
func (c *call) all(p Placement) {
	in := make([]Placement, len(c.sh))
	for k := range in {
		in[k] = p
	}
	c.add(p, in...)
}

// through adds, for each fold, the choice in which operand k is partial, the others are
// whole, and the result is partial.
func (c *call) through(k int, folds ...Fold) {
	for _, f := range folds {
		if f.folds(c.dt[k]) {
			in := make([]Placement, len(c.sh))
			in[k] = Partial(f)
			c.add(Partial(f), in...)
		}
	}
}

// grows reports whether the result has more elements than operand k, so that folding it
// later would cost more.
func (c *call) grows(k int) bool { return c.out.Elems() > c.sh[k].Elems() }

// broadcast returns the placement of operand k if dim d of the result is sharded: Shard
// of its corresponding dim, or Replicate if that dim is repeated.
func (c *call) broadcast(k, d int) Placement {
	j := d - (len(c.out) - len(c.sh[k]))
	if c.dt[k] == tensor.Invalid || j < 0 || c.sh[k][j] != c.out[d] {
		return Replicate
	}
	return Shard(j)
}
