package shard

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// price is the cost of a choice.
//
// A choice that moves nothing is cheaper than one that moves something. Otherwise the sum
// of moved and owed decides, then the number of changes of layouts, then the order of the
// rules. owed is the cost that the result will cause: folding it if it is partial, and
// gathering it if it is sharded only because of this choice.
type price struct {
	moved, owed int64
	changes     int
	rule        int
}

func (p price) less(q price) bool {
	a, b := p.moved+p.owed, q.moved+q.owed
	switch {
	case (p.moved == 0) != (q.moved == 0):
		return p.moved == 0
	case a != b:
		return a < b
	case p.changes != q.changes:
		return p.changes < q.changes
	}
	return p.rule < q.rule
}

// instr rewrites instruction i. It chooses the cheapest combination of rules along the
// dims of the mesh, brings the operands to the layouts that they need, and adds the
// operations of the ranks.
func (w *rewriter) instr(i int) {
	in := &w.p.Instrs[i]
	out := &tensorState{dt: in.DType, shape: w.p.Shapes[in.Shape], name: fmt.Sprintf("%%%d %v", i, in.Op), full: -1}
	w.results[i] = out
	if in.Op.Info().Class == tensor.ClassLeaf {
		if in.Op == tensor.OpFull {
			out.full = i
		}
		w.made(i, out)
		w.named(i, out)
		return
	}
	operands, ins, l := w.choose(i, out)
	args := make([]Var, len(operands))
	for k, x := range operands {
		if x != nil {
			args[k] = w.want(x, ins[k], i)
		}
	}
	out.have = []version{{l, w.lower(i, operands, ins, args, l)}}
	w.layouts[i] = l
	if update(in.Op) { // state keeps its layout
		if home := operands[0].have[0].layout; home != l {
			v := w.want(out, home, i)
			out.have = append([]version{{home, v}}, out.have[0])
		}
	}
	w.named(i, out)
}

// made makes the result of instruction i, a leaf, in the layout of the hint for its
// signal.
func (w *rewriter) made(i int, out *tensorState) {
	var l Layout
	if sig, ok := w.p.SignalOf(tensor.Ref(i)); ok {
		var err error
		l, err = w.o.Signals.Made(sig, w.mesh, out.shape)
		w.fail(i, err)
	}
	if out.full < 0 {
		out.have = []version{{Layout{}, w.leaf(i, Layout{})}}
		out.have = []version{{l, w.want(out, l, i)}}
	} else {
		out.have = []version{{l, w.leaf(i, l)}}
	}
	w.layouts[i] = l
}

// settle brings an input, before its first use, to the layout of the hint for its signal.
func (w *rewriter) settle(x *tensorState, r tensor.Ref, reader int) {
	sig, ok := w.p.SignalOf(r)
	if !ok || x.settled {
		return
	}
	x.settled = true
	if _, hinted := w.o.Signals.hint(sig); !hinted {
		return
	}
	l, err := w.o.Signals.Made(sig, w.mesh, x.shape)
	w.fail(reader, err)
	if l != x.have[0].layout && err == nil {
		x.have = []version{{l, w.want(x, l, reader)}}
	}
}

// named brings the result of instruction i to the layout of the hint for its own name.
func (w *rewriter) named(i int, out *tensorState) {
	sig, ok := w.p.NameOf(i)
	if !ok {
		return
	}
	l, hinted, err := w.o.Signals.named(sig, w.mesh, out.shape)
	w.fail(i, err)
	if hinted && err == nil {
		out.have = []version{{l, w.want(out, l, i)}}
	}
}

func (w *rewriter) fail(i int, err error) {
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("%%%d %v: %w", i, w.p.Instrs[i].Op, err)
	}
}

// choose returns the tensor operands of instruction i (nil for a scalar in the place of a
// tensor), and the layouts of the operands and the result.
func (w *rewriter) choose(i int, out *tensorState) (operands []*tensorState, ins []Layout, l Layout) {
	in := &w.p.Instrs[i]
	refs := w.p.ArgsOf(i)
	refs = refs[:len(refs)-len(in.Op.Info().Scalars)]
	c := &call{op: in.Op, ints: w.p.IntsOf(i), out: out.shape, odt: out.dt, ranks: w.ranks}
	for _, r := range refs {
		x := w.state(r)
		if x != nil && x.external {
			w.settle(x, r, i)
		}
		d, s := w.p.TypeOf(r)
		operands, c.dt, c.sh = append(operands, x), append(c.dt, d), append(c.sh, s)
	}
	rules := c.rules()
	var best price
	try := make([]Layout, len(operands))
	consider := func(n int, pick ...choice) {
		var to Layout
		for k := range pick {
			to[k] = pick[k].out
			for j := range operands {
				try[j][k] = pick[k].in[j]
			}
		}
		if q, ok := w.price(in.Op, out, operands, try, to); ok {
			if q.rule = n; ins == nil || q.less(best) {
				best, ins, l = q, append([]Layout(nil), try...), to
			}
		}
	}
	first := rules
	if w.mesh[0].Size == 1 || w.inParts && update(in.Op) {
		first = rules[:1]
	}
	for a, x := range first {
		if len(w.mesh) == 1 || w.mesh[1].Size == 1 {
			consider(a, x)
			continue
		}
		for b, y := range rules {
			consider(a+b, x, y)
		}
	}
	return operands, ins, l
}

// price returns the cost of running op with its operands in layouts ins and its result in
// layout l. It returns false if an external would become a term of a partial tensor: a
// parameter must not become partial because its gradient is. It also returns false for a
// choice that an instruction on parts does not have: one that moves rows.
func (w *rewriter) price(op tensor.Op, out *tensorState, operands []*tensorState, ins []Layout, l Layout) (q price, ok bool) {
	for k, x := range operands {
		if x == nil {
			continue
		}
		_, hops, bytes := w.nearest(x, ins[k])
		if x.full >= 0 && !ins[k].partial() {
			continue // can be made in any layout
		}
		for _, h := range hops {
			if kind, moves := h.kind(); w.inParts && moves && kind != protocol.AllReduce && l != (Layout{}) {
				return q, false
			}
			if h.to.kind == partial && x.external && x.shape.Equal(out.shape) && op.Info().Class == tensor.ClassElementwise {
				return q, false
			}
		}
		q.moved += bytes
		q.changes += len(hops)
	}
	if update(op) {
		hops, bytes := w.mesh.path(out.dt, out.shape, l, operands[0].have[0].layout)
		q.moved += bytes
		q.changes += len(hops)
		return q, true
	}
	owed := l // the layout to gather, without dims that were sharded before
	for k, p := range l {
		if p.kind == sharded && w.sharded(operands, k) {
			owed[k] = Replicate
		}
	}
	_, q.owed = w.mesh.path(out.dt, out.shape, owed, Layout{})
	return q, true
}

// sharded reports whether an operand was sharded along dim k of the mesh before.
func (w *rewriter) sharded(operands []*tensorState, k int) bool {
	return slices.ContainsFunc(operands, func(x *tensorState) bool {
		return x != nil && slices.ContainsFunc(x.have, func(v version) bool { return v.layout[k].kind == sharded })
	})
}
