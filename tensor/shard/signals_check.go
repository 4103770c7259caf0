package shard

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// SignalError is a hint that a tensor of a program can't follow. It unwraps to ErrPlacement.
type SignalError struct {
	Signal tensor.Signal // of the tensor
	Hint   tensor.Signal // whose entry of Signals it is: the same, or one with a *, or a part of state/wide
	Shape  tensor.Shape
	Axis   int // of the hint, below 0 from the last; where Cuts isn't 0 from the first
	Cuts   int // in how many equal parts the dim can't be cut; 0 if the tensor has no such dim
}

func (e *SignalError) Error() string {
	if e.Cuts == 0 {
		return fmt.Sprintf("%v: signal %v: dim %d of a tensor %v, expected %d to %d", ErrPlacement, e.Signal, e.Axis, e.Shape, -len(e.Shape), len(e.Shape)-1)
	}
	return fmt.Sprintf("%v: signal %v: dim %d of %v is to be cut evenly in %d", ErrPlacement, e.Signal, e.Axis, e.Shape, e.Cuts)
}

func (e *SignalError) Unwrap() error { return ErrPlacement }

// Check reports the first tensor of p that can't lie as its signal's hint says, as a *SignalError: a tensor that was named by itself without
// the dim, and one whose dim is to be cut evenly and isn't divided. Rewrite refuses the same, and says less. mesh is the mesh that a
// signal's tensors lie on; nil if that is not known, and then nothing is said of even cuts.
func (g Signals) Check(p *tensor.Program, mesh func(tensor.Signal) Mesh) error {
	for i := range p.Externals {
		r := tensor.ExternalRef(i)
		if sig, ok := p.SignalOf(r); ok {
			_, s := p.TypeOf(r)
			if err := g.fits(sig, mesh(sig), s, false); err != nil {
				return err
			}
		}
	}
	for i, in := range p.Instrs {
		_, s := p.TypeOf(tensor.Ref(i))
		if sig, ok := p.SignalOf(tensor.Ref(i)); ok && in.Op.Info().Class == tensor.ClassLeaf {
			if err := g.fits(sig, mesh(sig), s, false); err != nil {
				return err
			}
		}
		if sig, ok := p.NameOf(i); ok {
			if err := g.fits(sig, mesh(sig), s, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// fits reports why a tensor of shape s can't lie as the hint for sig says.
func (g Signals) fits(sig tensor.Signal, m Mesh, s tensor.Shape, named bool) error {
	h, ok := g.hint(sig)
	if !ok {
		return nil
	}
	l := h.Layout
	for k := range l {
		d, cut := l[k].Sharded()
		if !cut {
			continue
		}
		if d < -len(s) || d >= len(s) {
			if !named {
				return nil
			}
			return &SignalError{Signal: sig, Hint: g.whose(sig, func(h Hint) bool { return h.Layout[k] == l[k] }), Shape: s, Axis: d}
		}
		if d < 0 {
			l[k] = Shard(d + len(s))
		}
	}
	if !h.Even || m == nil {
		return nil
	}
	if d, cuts, bad := uneven(m, m.normal(l), s); bad {
		return &SignalError{Signal: sig, Hint: g.whose(sig, func(h Hint) bool { return h.Even }), Shape: s, Axis: d, Cuts: cuts}
	}
	return nil
}

// whose is the key of the entry that speaks of sig, and of which is says yes where it is made of two.
func (g Signals) whose(sig tensor.Signal, is func(Hint) bool) tensor.Signal {
	if k, ok := findKey(g, sig); ok {
		return k
	}
	kind, of, both := strings.Cut(sig.Name, "/")
	if !both {
		return sig
	}
	if k := g.whose(tensor.Signal{Name: of, Backward: sig.Backward}, is); is(g[k]) {
		return k
	}
	return g.whose(tensor.Signal{Name: kind, Backward: sig.Backward}, is)
}
