package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// reluGrads lets the gradient of a ReLU read the ReLU's result instead of its operand,
// where the result exists: one is positive where the other is. The operand is then not
// kept for the gradient.
func (rw *rewriter) reluGrads(*graph, *edit) {
	var relus []int
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		switch s.Op {
		case tensor.OpRelu:
			relus = append(relus, k)
		case tensor.OpReluGrad:
			// The nearest one: an earlier result may not be kept for another step.
			for _, r := range slices.Backward(relus) {
				if y := &rw.plan.Steps[r]; same(y.In[0], s.In[0]) {
					s.In[0] = y.Out
					break
				}
			}
		}
	}
}
