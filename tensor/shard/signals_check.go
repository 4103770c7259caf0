package shard

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// SignalError describes a hint that a tensor of a program can't follow. It unwraps to
// ErrPlacement.
type SignalError struct {
	Signal tensor.Signal // of the tensor
	// Hint is the key of the entry in Signals: Signal itself, one with a *, or a part of
	// state/p.
	Hint  tensor.Signal
	Shape tensor.Shape
	// Axis is the dim of the hint, counted from the last if negative; if Cuts isn't 0,
	// counted from the first.
	Axis int
	// Cuts is the number of equal parts into which the dim can't be cut; 0 if the tensor
	// lacks the dim.
	Cuts int
	// Scope says that no tensor of that scope has the dim. Shape then is the shape with
	// the most dims.
	Scope bool
}

// Error names the signal and says why the tensor cannot lie so.
func (e *SignalError) Error() string {
	switch {
	case e.Scope:
		return fmt.Sprintf("%v: signal %v: no tensor has dim %d, expected %d to %d", ErrPlacement, e.Signal, e.Axis, -len(e.Shape), len(e.Shape)-1)
	case e.Cuts == 0:
		return fmt.Sprintf("%v: signal %v: dim %d of a tensor %v, expected %d to %d", ErrPlacement, e.Signal, e.Axis, e.Shape, -len(e.Shape), len(e.Shape)-1)
	}
	return fmt.Sprintf("%v: signal %v: dim %d of %v is to be cut evenly in %d", ErrPlacement, e.Signal, e.Axis, e.Shape, e.Cuts)
}

// Unwrap returns ErrPlacement.
func (e *SignalError) Unwrap() error { return ErrPlacement }

// Check returns a *SignalError for the first tensor of p that can't lie as the hint for
// its signal says: a tensor named by itself without the dim, a tensor whose dim must be
// cut evenly and isn't divided, or a scope without a tensor that has the dim. Rewrite
// refuses tensors for the same reasons with less detail. mesh returns the mesh of a
// signal's tensors, or nil if it is not known; even cuts are then not checked.
func (g Signals) Check(p *tensor.Program, mesh func(tensor.Signal) Mesh) error {
	var scopes scopes
	for _, t := range signalledOf(p) {
		_, _, bad := g.fit(t.sig, mesh(t.sig), t.shape)
		if bad != nil && (bad.Cuts > 0 || t.named) {
			return bad
		}
		if !t.named && len(t.shape) > 0 {
			scopes.add(t, bad)
		}
	}
	return scopes.err()
}

// scopes holds the scopes of a program by signal, in the order of their first tensors.
type scopes struct {
	order []tensor.Signal
	// lacked has the error of the tensor with the most dims, nil if a tensor has the dim.
	lacked map[tensor.Signal]*SignalError
}

// add notes that a tensor lacks the dim of its scope's hint, or that it has it if e is
// nil.
func (x *scopes) add(t signalled, e *SignalError) {
	if x.lacked == nil {
		x.lacked = map[tensor.Signal]*SignalError{}
	}
	before, seen := x.lacked[t.sig]
	if !seen {
		x.order = append(x.order, t.sig)
	}
	if !seen || e == nil || before != nil && len(t.shape) > len(before.Shape) {
		x.lacked[t.sig] = e
	}
}

func (x *scopes) err() error {
	for _, sig := range x.order {
		if e := x.lacked[sig]; e != nil {
			e.Scope = true
			return e
		}
	}
	return nil
}

// source returns the key of the entry that applies to sig. For state/p without an
// entry of its own it is the entry of p if is reports true for that hint, else that of
// state.
func (g Signals) source(sig tensor.Signal, is func(Hint) bool) tensor.Signal {
	if k, ok := findKey(g, sig); ok {
		return k
	}
	kind, of, both := strings.Cut(sig.Name, "/")
	if !both {
		return sig
	}
	if k := g.source(tensor.Signal{Name: of, Backward: sig.Backward}, is); is(g[k]) {
		return k
	}
	return g.source(tensor.Signal{Name: kind, Backward: sig.Backward}, is)
}
