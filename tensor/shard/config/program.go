package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
)

// CheckProgram returns an error for the first tensor of p that can't lie as c says: it
// lacks the dim, or the dim must be cut evenly and isn't divided; or for a scope without
// a tensor that has the dim. The error is an *Error with the place of the entry in the
// file.
func (c *Config) CheckProgram(p *tensor.Program) error {
	err := c.Hints().Check(p, c.meshOf())
	var e *shard.SignalError
	if !errors.As(err, &e) {
		return err
	}
	g := c.said(e.Hint)
	name := "a tensor of " + e.Signal.String()
	if g == nil { // ZeRO1, which does not ask for even cuts
		return c.bad("zero1", "", "%v", err)
	}
	if e.Scope {
		return c.bad(g.Name+".shard.axis", fmt.Sprint(e.Axis), "no tensor of %v has this dim, the largest of them the shape %v, expected %d to %d",
			e.Signal, e.Shape, -len(e.Shape), len(e.Shape)-1)
	}
	if e.Cuts == 0 {
		if len(e.Shape) == 0 {
			return c.bad(g.Name+".shard.axis", fmt.Sprint(e.Axis), "%s is a number, which can't be cut: leave it out", name)
		}
		return c.bad(g.Name+".shard.axis", fmt.Sprint(e.Axis), "%s has the shape %v, expected %d to %d", name, e.Shape, -len(e.Shape), len(e.Shape)-1)
	}
	return c.bad(g.Name+".shard.even", "true", "dim %d of %s, of shape %v, is cut in %d, expected a multiple of %d there, workers that divide %d, or even: false",
		e.Axis, name, e.Shape, e.Cuts, e.Cuts, e.Shape[e.Axis])
}

// Unused returns an *Error for each of c's signals that is neither in have nor the
// backward signal of another entry. Such a name may be misspelt.
func (c *Config) Unused(have []tensor.Signal) (out []error) {
	for _, g := range c.Signals {
		speaks := func(sig tensor.Signal) bool { return shard.Speaks(g.Name, sig) }
		if slices.ContainsFunc(have, speaks) || slices.ContainsFunc(c.Signals, func(o Signal) bool { return o.Backward == g.Name }) {
			continue
		}
		out = append(out, c.bad(g.Name, "", "the program has no such signal, so the entry has no effect; check the spelling"))
	}
	return out
}

// said returns the entry with the hint for sig.
func (c *Config) said(sig tensor.Signal) *Signal {
	if !sig.Backward {
		return c.find(sig.Name)
	}
	if g := c.find(sig.Name); g != nil {
		return c.find(g.Backward)
	}
	return nil
}

// meshOf returns a function from a signal to the mesh of its tensors. It returns nil for
// tensors that can lie on stages of several sizes.
func (c *Config) meshOf() func(tensor.Signal) shard.Mesh {
	stages, of := c.Stages(), c.StageOf()
	same := stages[0].Mesh
	for _, s := range stages {
		if s.Mesh.Size() != same.Size() {
			same = nil
			break
		}
	}
	return func(sig tensor.Signal) shard.Mesh {
		if k, ok := shard.For(of, sig); ok {
			return stages[k].Mesh
		}
		return same
	}
}
