package shard

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
)

// price is what a choice costs, in the order in which prices are compared.
//
// What moves nothing comes before all that moves something; among the former what is owed counts first, among the latter the sum of
// what moves and what is owed. Owed is what the result will cost: the folding of a partial one, and the gathering of one
// that is sharded only because of this choice. Then follow the number of changes of layouts, and the order of the rules.
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

// instr rewrites instruction i: it takes the cheapest combination of the rules along each dim of the mesh, brings the operands to
// where it wants them, and adds what ranks compute.
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
	args := make([]Value, len(operands))
	for k, x := range operands {
		if x != nil {
			args[k] = w.want(x, ins[k], i)
		}
	}
	out.have = []version{{l, w.lower(i, operands, ins, args, l)}}
	w.layouts[i] = l
	if update(in.Op) { // state stays where it is
		if home := operands[0].have[0].layout; home != l {
			v := w.want(out, home, i)
			out.have = append([]version{{home, v}}, out.have[0])
		}
	}
	w.named(i, out)
}

// made makes the result of instruction i, which comes from nothing, where the hint for its signal wants it.
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

// settle brings an input, when it is read first, to where the hint for its signal wants it, for all that read it.
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

// named brings the result of instruction i to where the hint for its own name wants it, for all that read it.
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

// choose gives the operands of instruction i that are tensors (nil for a number in the place of one), and the layouts to run it in.
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
	if w.mesh[0].Size == 1 {
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

// price returns what it costs to run op with its operands in layouts ins, giving l. It is not ok where state would become one term of a
// partial tensor: a parameter is not to fall apart because its gradient does.
func (w *rewriter) price(op tensor.Op, out *tensorState, operands []*tensorState, ins []Layout, l Layout) (q price, ok bool) {
	for k, x := range operands {
		if x == nil {
			continue
		}
		_, hops, bytes := w.nearest(x, ins[k])
		if x.full >= 0 && !ins[k].partial() {
			continue // made in any layout
		}
		for _, h := range hops {
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
	owed := l // with what was sharded before left as it is
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
	for _, x := range operands {
		if x == nil {
			continue
		}
		for _, v := range x.have {
			if v.layout[k].kind == sharded {
				return true
			}
		}
	}
	return false
}
