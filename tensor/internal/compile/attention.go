package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// attention finds attention as tensor.Attention records it, and its gradient as package
// autograd records it:
//
//	S = q kᵀ; P = causal_softmax(S, scale), or softmax(S scale) without a mask; y = P v
//	dP = dy vᵀ; dS = softmax_grad(P, dP) scale; dq = dS k; dk = dSᵀ q; dv = Pᵀ dy
//
// It makes one step of each, so that neither S nor P nor their gradients, whose size
// grows with the square of the sequence, are ever whole in memory. The backward step
// computes P again. Sums are taken in another order, so results differ from those of the
// single steps in their last bits.
func (rw *rewriter) attention(g *graph, e *edit) {
	m := attentionMatch{rw: rw, g: g, e: e}
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if s.Out.DType == tensor.F32 && (s.is(tensor.OpCausalSoftmax) ||
			s.is(tensor.OpSoftmax) && int(s.Ints[0]) == len(s.Out.Shape)-1) {
			m.at(k)
		}
	}
}

// maxHeads bounds the number of matrices of a fused attention, because an engine lists
// them.
const maxHeads = 4096

// attentionMatch holds the tensors and steps of the attention around one softmax. D
// stands for the dims before the last two; D is U, the dims that the gradients of k and v
// have as well, followed by G, the dims over which k and v are broadcast.
type attentionMatch struct {
	rw *rewriter
	g  *graph
	e  *edit

	batch      tensor.Shape // D
	s, t       int          // numbers of queries and keys
	q, k, v    Operand      // [D s d], [D t d], [D t e]
	scale      Operand
	causal     int64 // 1 if a query sees only the keys up to its own position
	p, dy      Operand
	yAt        int   // the step that makes y
	forward    []int // the steps that become the forward step
	backward   []int
	units      int // number of dims in U
	dq, dk, dv Operand
	back       Operand // the scale of the gradient
}

func (m *attentionMatch) at(k int) {
	soft := m.step(k)
	r := len(soft.Out.Shape)
	if r < 2 {
		return
	}
	m.batch, m.s, m.t = soft.Out.Shape[:r-2], soft.Out.Shape[r-2], soft.Out.Shape[r-1]
	m.p, m.forward, m.backward = soft.Out, []int{k}, nil
	if soft.Out.Shape.Elems() == 0 || m.batch.Elems() > maxHeads || m.rw.plan.Buffers[m.p.Buf].Place != Temp {
		return
	}
	scores, reader := soft.In[0], k
	if m.causal = 1; soft.Op == tensor.OpSoftmax {
		if m.causal = 0; !m.scaled(&scores, &reader) {
			return
		}
	} else {
		m.scale = soft.In[1]
	}
	if !m.scores(scores, reader) {
		return
	}
	readers := m.g.readers[m.p.Buf]
	y := m.find(readers, m.isY)
	if y < 0 {
		return
	}
	m.yAt, m.forward = y, append(m.forward, y)
	m.v = spreadOver(m.step(y).In[1], m.shape(m.t, last(m.step(y).Out.Shape)))
	if len(readers) > 1 && !m.gradient(readers) {
		return
	}
	in := []Operand{m.q, m.k, m.v, m.scale}
	f := Step{Instr: m.step(y).Instr, Op: soft.Op, Fused: Attention, In: in, Out: m.step(y).Out, Ints: []int64{m.causal}}
	if f.Out.Shape.Elems() == 0 || m.q.Shape.Elems() == 0 || !f.Out.Shape.Equal(m.shape(m.s, last(f.Out.Shape))) {
		return
	}
	if !m.oneEra(m.forward) || !m.oneEra(m.backward) {
		return
	}
	if m.backward != nil {
		if m.rw.opt.leaves(AttentionGrad) {
			return // its operations read the results of single steps
		}
		b := Step{
			Op: tensor.OpSoftmaxGrad, Fused: AttentionGrad, Ints: []int64{m.causal},
			In:  []Operand{m.q, m.k, m.v, m.scale, m.dy, m.back},
			Out: m.dq, Also: []Operand{m.dk, m.dv},
		}
		at := slices.Min(m.backward)
		b.Instr = m.step(slices.Max(m.backward)).Instr
		if !m.g.available(b.In, at) {
			return
		}
		m.e.replace(at, b, m.backward...)
	}
	m.e.replace(y, f, m.forward...)
}

func (m *attentionMatch) step(k int) *Step { return &m.rw.plan.Steps[k] }

// oneEra reports whether no barrier lies between the steps. The backward step may be of a
// later era than the forward step, because it computes P again.
func (m *attentionMatch) oneEra(steps []int) bool {
	return !slices.ContainsFunc(steps, func(k int) bool {
		return m.rw.era[m.step(k).Instr] != m.rw.era[m.step(steps[0]).Instr]
	})
}

// shape returns D followed by two dims.
func (m *attentionMatch) shape(rows, cols int) tensor.Shape {
	return append(slices.Clone(m.batch), rows, cols)
}

// find returns the only step among readers that ok accepts, or -1.
func (m *attentionMatch) find(readers []use, ok func(s *Step) bool) int {
	at := -1
	for _, u := range readers {
		if s := m.step(u.step); s.Fused == Single && !m.e.touched(u.step) && ok(s) {
			if at >= 0 && at != u.step {
				return -1
			}
			at = u.step
		}
	}
	return at
}

// scaled finds the product with a scalar that computes x, which step k alone reads. It
// stores the scalar in m.scale, the other operand in x and the product's step in k.
func (m *attentionMatch) scaled(x *Operand, k *int) bool {
	d := m.g.def[x.Buf]
	if d < 0 || !m.rw.whole(*x) || !m.rw.only(m.g, x.Buf, *k) || m.e.touched(d) {
		return false
	}
	s := m.step(d)
	if !s.is(tensor.OpMul) || s.In[0].Scalar >= 0 || s.In[1].Scalar < 0 ||
		!s.Out.Shape.Equal(x.Shape) || !s.In[0].Shape.Equal(x.Shape) {
		return false
	}
	m.forward = append(m.forward, d)
	*x, *k, m.scale = s.In[0], d, s.In[1]
	return true
}

// scores finds the matrix product that computes x, the operand of the softmax, and stores
// its operands in m.q and m.k.
func (m *attentionMatch) scores(x Operand, k int) bool {
	d := m.g.def[x.Buf]
	if d < 0 || !m.rw.whole(x) || !m.rw.only(m.g, x.Buf, k) || m.e.touched(d) {
		return false
	}
	s := m.step(d)
	if !s.is(tensor.OpMatmul) || !s.Out.Shape.Equal(x.Shape) {
		return false
	}
	n := last(s.In[0].Shape)
	m.q = spreadOver(s.In[0], m.shape(m.s, n))
	m.k = transposed(spreadOver(s.In[1], m.shape(n, m.t)))
	m.forward = append(m.forward, d)
	return true
}

func (m *attentionMatch) isY(s *Step) bool { return s.Op == tensor.OpMatmul && same(s.In[0], m.p) }

// gradient finds the six steps of the gradient, beginning with the three readers of P.
func (m *attentionMatch) gradient(readers []use) bool {
	soft := m.find(readers, func(s *Step) bool { return s.Op == tensor.OpSoftmaxGrad && same(s.In[0], m.p) })
	dv := m.find(readers, func(s *Step) bool { return s.Op == tensor.OpMatmul && m.folded(s.In[0], m.p) })
	if len(readers) != 3 || soft < 0 || dv < 0 || int(m.step(soft).Ints[0]) != len(m.p.Shape)-1 {
		return false
	}
	dp := m.step(soft).In[1]
	dpAt := m.g.def[dp.Buf]
	if dpAt < 0 || !m.rw.whole(dp) || !m.rw.only(m.g, dp.Buf, soft) || !m.step(dpAt).is(tensor.OpMatmul) {
		return false
	}
	e := last(m.v.Shape)
	if last(m.step(dpAt).In[0].Shape) != e {
		return false
	}
	m.dy = spreadOver(m.step(dpAt).In[0], m.shape(m.s, e))
	if vt := spreadOver(m.step(dpAt).In[1], m.shape(e, m.t)); !same(transposed(vt), m.v) {
		return false
	}
	ds0 := m.step(soft).Out
	mul := m.find(m.g.readers[ds0.Buf], func(s *Step) bool {
		return s.Op == tensor.OpMul && s.In[0].Scalar < 0 && s.In[1].Scalar >= 0 && same(s.In[0], ds0)
	})
	if mul < 0 || !m.rw.only(m.g, ds0.Buf, mul) || m.rw.plan.Buffers[m.step(mul).Out.Buf].Place != Temp {
		return false
	}
	m.back = m.step(mul).In[1]
	ds := m.step(mul).Out
	readers = m.g.readers[ds.Buf]
	dq := m.find(readers, func(s *Step) bool {
		return s.Op == tensor.OpMatmul && same(s.In[0], ds) && last(s.Out.Shape) == last(m.k.Shape) &&
			same(spreadOver(s.In[1], m.k.Shape), m.k)
	})
	dk := m.find(readers, func(s *Step) bool { return s.Op == tensor.OpMatmul && m.folded(s.In[0], ds) })
	if len(readers) != 2 || dq < 0 || dk < 0 {
		return false
	}
	m.units = len(m.step(dv).In[0].Shape) - 2
	if len(m.step(dk).In[0].Shape)-2 != m.units || !m.broadcastBeyond(m.k) || !m.broadcastBeyond(m.v) ||
		!m.isFold(m.step(dv).In[1], m.dy) || !m.isFold(m.step(dk).In[1], m.q) {
		return false
	}
	m.dq, m.dk, m.dv = m.step(dq).Out, m.step(dk).Out, m.step(dv).Out
	lead := m.batch[:m.units]
	if !m.dk.Shape.Equal(append(slices.Clone(lead), m.t, last(m.k.Shape))) ||
		!m.dv.Shape.Equal(append(slices.Clone(lead), m.t, e)) || !m.dq.Shape.Equal(m.q.Shape) {
		return false
	}
	m.backward = []int{dpAt, soft, mul, dq, dk, dv}
	return !slices.ContainsFunc(m.backward, m.e.touched)
}

// folded reports whether o is the transpose of x [D s t] with G folded into its rows: [U
// t G*s].
func (m *attentionMatch) folded(o, x Operand) bool {
	u := len(o.Shape) - 2
	if o.Buf != x.Buf || o.Off != 0 || u < 0 || u > len(m.batch) || !o.Shape[:u].Equal(m.batch[:u]) ||
		o.Shape[u] != m.t || o.Shape[u+1] != m.batch[u:].Elems()*m.s {
		return false
	}
	want := slices.Clone(x.Shape.Strides()[:u])
	want = append(want, 1, m.t)
	for i, n := range o.Shape {
		if n > 1 && o.Strides[i] != want[i] {
			return false
		}
	}
	return true
}

// broadcastBeyond reports whether o [D . .] is broadcast over all of G.
func (m *attentionMatch) broadcastBeyond(o Operand) bool {
	for i := m.units; i < len(m.batch); i++ {
		if m.batch[i] > 1 && o.Strides[i] != 0 {
			return false
		}
	}
	return true
}

// isFold reports whether o is x [D s d] seen as [U G*s d], or a copy of that.
func (m *attentionMatch) isFold(o, x Operand) bool {
	shape := append(slices.Clone(m.batch[:m.units]), m.batch[m.units:].Elems()*m.s, last(x.Shape))
	if !o.Shape.Equal(shape) {
		return false
	}
	if v, ok := reshaped(x, shape); ok && same(v, o) {
		return true
	}
	if k := m.g.def[o.Buf]; k >= 0 && m.rw.whole(o) {
		s := m.step(k)
		return isCopy(s) && s.Out.Buf == o.Buf && same(s.In[0], x)
	}
	return false
}

// isCopy reports whether s only makes a view dense.
func isCopy(s *Step) bool {
	return s.is(tensor.OpCast) && s.In[0].DType == s.Out.DType
}

func last(s tensor.Shape) int { return s[len(s)-1] }

// transposed returns o with its last two dims exchanged.
func transposed(o Operand) Operand {
	n := len(o.Shape)
	o.Shape, o.Strides = slices.Clone(o.Shape), slices.Clone(o.Strides)
	o.Shape[n-2], o.Shape[n-1] = o.Shape[n-1], o.Shape[n-2]
	o.Strides[n-2], o.Strides[n-1] = o.Strides[n-1], o.Strides[n-2]
	o.Dense = dense(o.Shape, o.Strides)
	return o
}
