package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// lossGrads joins a cross entropy and its gradient into one step, which computes the
// exponentials once.
func (rw *rewriter) lossGrads(g *graph, e *edit) {
	for k := range rw.plan.Steps {
		d := &rw.plan.Steps[k]
		if d.Op != tensor.OpCrossEntropyGrad || d.Out.DType != tensor.F32 {
			continue
		}
		l := rw.reader(g, e, d.In[0].Buf, func(s *Step) bool {
			return s.Op == tensor.OpCrossEntropy && rw.era[s.Instr] == rw.era[d.Instr] && same(s.In[0], d.In[0]) && same(s.In[1], d.In[1]) && slices.Equal(s.Ints, d.Ints)
		})
		if l < 0 || l > k {
			continue
		}
		loss := rw.plan.Steps[l].Out
		if slices.ContainsFunc(g.readers[loss.Buf], func(u use) bool { return u.step <= k }) {
			continue
		}
		f := *d
		f.Fused, f.Also = LossGrad, []Operand{loss}
		e.replace(k, f, l)
	}
}
