package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// reluGrads lets the gradient of a ReLU look at its result instead of its operand, where the result is there: one is
// positive where the other is. The operand is then needed no longer than the result is made.
func (c *compiler) reluGrads() {
	var relus []int
	for k := range c.plan.Steps {
		s := &c.plan.Steps[k]
		switch s.Op {
		case tensor.OpRelu:
			relus = append(relus, k)
		case tensor.OpReluGrad:
			for _, r := range slices.Backward(relus) { // the nearest: an earlier one may be kept for nobody else
				if y := &c.plan.Steps[r]; same(y.In[0], s.In[0]) {
					s.In[0] = y.Out
					break
				}
			}
		}
	}
}
