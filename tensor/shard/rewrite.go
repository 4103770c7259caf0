package shard

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Options change how a program is rewritten; nil and the zero value are the defaults.
type Options struct {
	// Outputs says how kept results are to lie, by instruction. A result that isn't listed stays as it came out, Partial too:
	// Redistribute brings it elsewhere once somebody reads it.
	Outputs map[int]Layout

	// Signals says how tensors lie that carry a signal: those made from nothing under it, and results and inputs that were named
	// with it. Of inputs made from data Place says it. Signals that aren't listed say nothing.
	Signals Signals

	// BucketBytes is how large an all-reduce of several tensors may get; default 512 KiB. The first of a kind is full at a quarter, so
	// that something is under way soon. Below 0 each tensor has its own.
	BucketBytes int64

	// OverlapBytes is from what size on a collective is started as soon as its input exists, so that it is under way while
	// other work is done, at the price that programs end there; default 64 KiB. A smaller one is started where its result
	// is needed.
	OverlapBytes int64
}

func (o *Options) defaults() Options {
	d := Options{}
	if o != nil {
		d = *o
	}
	if d.BucketBytes == 0 {
		d.BucketBytes = 512 << 10
	}
	if d.OverlapBytes == 0 {
		d.OverlapBytes = 64 << 10
	}
	return d
}

// tensorState is a tensor of the program and how it lies by now.
type tensorState struct {
	dt       tensor.DType
	shape    tensor.Shape
	have     []version
	external bool
	settled  bool // an input that was brought to where its signal wants it
	name     string
	full     int // the instruction, if it is a full
}

// version is a tensor as it lies in one layout.
type version struct {
	layout Layout
	value  Value
}

// rewriter rewrites one program.
type rewriter struct {
	*builder
	p         *tensor.Program
	o         Options
	externals []*tensorState
	results   []*tensorState
	counts    map[targets]counted // rows of losses
	layouts   []Layout
	err       error // of a hint, the first
}

// Rewrite makes the plan by which the ranks of m run p together. inputs says how each external input of p lies. p must be well
// formed (it came from a Session or ParseProgram); it is read until the plan is no longer used, and never changed.
//
// It returns ErrMesh or ErrPlacement for a mesh, inputs or outputs that can't be, naming which.
func Rewrite(p *tensor.Program, m Mesh, inputs []Layout, o *Options) (*Plan, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if len(inputs) != len(p.Externals) {
		return nil, fmt.Errorf("%w: %d layouts for %d inputs", ErrPlacement, len(inputs), len(p.Externals))
	}
	w := &rewriter{builder: newBuilder(m, len(inputs)), p: p, o: o.defaults(), counts: map[targets]counted{},
		results: make([]*tensorState, len(p.Instrs)), layouts: make([]Layout, len(p.Instrs))}
	if err := w.o.Signals.check(m); err != nil {
		return nil, err
	}
	placed := make([]Placed, len(inputs))
	for i, l := range inputs {
		d, s := p.TypeOf(tensor.ExternalRef(i))
		if err := m.check(l, d, s); err != nil {
			return nil, fmt.Errorf("input %d: %w", i, err)
		}
		l = m.normal(l)
		placed[i] = Placed{d, s, l, 0}
		w.externals = append(w.externals, &tensorState{dt: d, shape: s, have: []version{{l, Value(i)}}, external: true, name: fmt.Sprintf("in%d", i), full: -1})
	}
	for i, l := range w.o.Outputs {
		if i < 0 || i >= len(p.Instrs) || !p.Instrs[i].Keep {
			return nil, fmt.Errorf("%w: a layout for instruction %d, which is not a kept result", ErrPlacement, i)
		}
		d, s := p.TypeOf(tensor.Ref(i))
		if err := m.check(l, d, s); err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
	}
	live := needed(p)
	for i := range p.Instrs {
		if live[i] {
			w.instr(i)
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	outputs := w.outputs()
	plan, err := w.finish(p, placed, outputs, w.o)
	if err != nil {
		return nil, err
	}
	plan.Stats.Instrs = len(p.Instrs)
	plan.results = w.layouts
	return plan, nil
}

// Redistribute returns the plan that brings one tensor from a layout to another. Its result is the kept result of instruction 0 of no
// program.
//
// It returns ErrMesh or ErrPlacement as Rewrite does.
func Redistribute(m Mesh, d tensor.DType, s tensor.Shape, from, to Layout) (*Plan, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	for _, l := range []Layout{from, to} {
		if err := m.check(l, d, s); err != nil {
			return nil, err
		}
	}
	from, to = m.normal(from), m.normal(to)
	w := &rewriter{builder: newBuilder(m, 1), o: (*Options)(nil).defaults()}
	x := &tensorState{dt: d, shape: s, have: []version{{from, 0}}, external: true, name: "in0", full: -1}
	v := w.want(x, to, -1)
	return w.finish(nil, []Placed{{d, s, from, 0}}, []Output{{0, v, Placed{d, s, to, 0}}}, w.o)
}

// needed says which instructions somebody needs: a kept result, or an error.
func needed(p *tensor.Program) []bool {
	live := make([]bool, len(p.Instrs))
	for i := len(p.Instrs) - 1; i >= 0; i-- {
		if in := &p.Instrs[i]; in.Keep || in.Op.Info().Fallible {
			live[i] = true
		}
		if live[i] {
			for _, r := range p.ArgsOf(i) {
				if j, ok := r.Instr(); ok {
					live[j] = true
				}
			}
		}
	}
	return live
}

// state returns the tensor that r names, nil for a scalar.
func (w *rewriter) state(r tensor.Ref) *tensorState {
	if i, ok := r.Instr(); ok {
		return w.results[i]
	}
	if i, ok := r.External(); ok {
		return w.externals[i]
	}
	return nil
}

// nearest returns the version of x from which l is cheapest to reach.
func (w *rewriter) nearest(x *tensorState, l Layout) (best version, hops []hop, bytes int64) {
	for k, v := range x.have {
		h, c := w.mesh.path(x.dt, x.shape, v.layout, l)
		if k == 0 || c < bytes || c == bytes && len(h) < len(hops) {
			best, hops, bytes = v, h, c
		}
	}
	return best, hops, bytes
}

// want returns x in layout l, made now if it isn't there yet. reader is the instruction that needs it.
func (w *rewriter) want(x *tensorState, l Layout, reader int) Value {
	from, hops, _ := w.nearest(x, l)
	if len(hops) > 0 && x.full >= 0 && !l.partial() {
		v := w.leaf(x.full, l)
		x.have = append(x.have, version{l, v})
		return v
	}
	v := from.value
	for _, h := range hops {
		if kind, moves := h.kind(); moves {
			w.notes = append(w.notes, note{x.name, h.from[h.dim], h.to, h.dim, w.mesh.cost(x.dt, x.shape, []hop{h}), reader, 0, kind})
		}
		v = w.take(v, x.dt, x.shape, h)
		x.have = append(x.have, version{h.after(), v})
	}
	return v
}

// outputs returns the kept results in the layouts that were asked for, or as they came out.
func (w *rewriter) outputs() []Output {
	var out []Output
	for i, in := range w.p.Instrs {
		if !in.Keep {
			continue
		}
		x := w.results[i]
		l, asked := w.o.Outputs[i]
		if !asked {
			l = x.have[0].layout
			for _, v := range x.have { // what somebody had folded needs no folding again
				if l.partial() && !v.layout.partial() {
					l = v.layout
				}
			}
		}
		l = w.mesh.normal(l)
		out = append(out, Output{i, w.want(x, l, -1), Placed{x.dt, x.shape, l, 0}})
	}
	return out
}
