package shard

import (
	"cmp"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// Options change how a program is rewritten; nil and the zero value are the defaults.
type Options struct {
	// Outputs is the layout of kept results, by instruction. A result that isn't listed
	// stays as it was computed, even Partial: Redistribute moves it later.
	Outputs map[int]Layout

	// Signals is the layout of tensors with a signal: leaves made under it, and results
	// and inputs named with it. Place applies it to inputs made from data. A signal that
	// isn't listed has no effect.
	Signals Signals

	// BucketBytes is the largest size of an all-reduce of several tensors; default 512
	// KiB. The first of each kind is full at a quarter, so that communication begins
	// early. Below 0 each tensor has an all-reduce of its own.
	BucketBytes int64

	// OverlapBytes is the size from which a collective starts as soon as its input
	// exists, beside other work; default 64 KiB. Programs end there. A smaller one starts
	// where its result is needed.
	OverlapBytes int64
	// Parts, if above 1, cuts what is cut along the mesh, which has one dim, in so many
	// equal parts, however many ranks there are: results have the same bits on any number
	// of ranks that divides Parts. See exactly.
	Parts int
}

func (o *Options) defaults() Options {
	d := *cmp.Or(o, &Options{})
	d.BucketBytes, d.OverlapBytes = cmp.Or(d.BucketBytes, 512<<10), cmp.Or(d.OverlapBytes, 64<<10)
	return d
}

// tensorState is a tensor of the program and the layouts that it has so far.
type tensorState struct {
	dt       tensor.DType
	shape    tensor.Shape
	have     []version
	external bool
	settled  bool // an input that has the layout of its signal
	name     string
	full     int // the instruction, if it is a full, else -1
}

// version is a tensor in one layout.
type version struct {
	layout Layout
	value  Var
}

// rewriter rewrites one program.
type rewriter struct {
	*builder
	p         *tensor.Program
	o         Options
	externals []*tensorState
	results   []*tensorState
	counts    map[targets]counted // the rows of losses
	layouts   []Layout
	inParts   bool  // only sums move, and an update works on whole tensors
	err       error // the first error of a hint
}

// Rewrite returns the plan by which the ranks of m run p together. inputs are the layouts
// of the external inputs of p. p must be well formed (from a Session or ParseProgram).
// The plan keeps p and does not change it.
//
// It returns ErrMesh or ErrPlacement for an invalid mesh, input or output, with its
// number.
func Rewrite(p *tensor.Program, m Mesh, inputs []Layout, o *Options) (*Plan, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if len(inputs) != len(p.Externals) {
		return nil, fmt.Errorf("%w: %d layouts for %d inputs", ErrPlacement, len(inputs), len(p.Externals))
	}
	var plan *Plan
	var err error
	if d := o.defaults(); d.Parts > 1 {
		plan, err = rewriteExactly(p, m, inputs, d)
	} else {
		plan, err = rewrite(p, m, inputs, o, false)
	}
	if err == nil && p.Unfused {
		plan.unfuse()
	}
	return plan, err
}

// unfuse has every program of the plan run one operation after another.
func (p *Plan) unfuse() {
	for _, r := range p.Ranks {
		for _, s := range r.Steps {
			if s.Kind == RunProgram {
				s.Run.Program.Unfused = true
			}
		}
	}
}

// rewrite is Rewrite without Options.Parts. inParts is that of the rewriter.
func rewrite(p *tensor.Program, m Mesh, inputs []Layout, o *Options, inParts bool) (*Plan, error) {
	w := &rewriter{builder: newBuilder(m, len(inputs)), p: p, o: o.defaults(), counts: map[targets]counted{}, inParts: inParts,
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
		w.externals = append(w.externals, &tensorState{
			dt: d, shape: s, have: []version{{l, Var(i)}},
			external: true, name: fmt.Sprintf("in%d", i), full: -1,
		})
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
	live := p.Live()
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

// Redistribute returns a plan that brings one tensor from a layout to another. Its result
// is the kept result of instruction 0.
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

// state returns the tensor that r names, or nil for a scalar.
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

// want returns x in layout l, and adds the nodes that make it if needed. reader is the
// instruction that needs it.
func (w *rewriter) want(x *tensorState, l Layout, reader int) Var {
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

// outputs returns the kept results in the requested layouts, or as they were computed.
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
			for _, v := range x.have { // prefer a version that is already folded
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
