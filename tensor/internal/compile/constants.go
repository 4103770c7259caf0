package compile

import "github.com/ringside-go/ringside/tensor"

// constants replaces operands of elementwise steps that are tensors full of one number by
// the scalar. It leaves integers alone: a scalar beside them is converted by other rules
// than the one that full takes.
func (rw *rewriter) constants(*graph, *edit) {
	full := map[int]Operand{} // scalars, by buffer
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if s.Op == tensor.OpFull && s.Out.DType.IsFloat() && rw.plan.Buffers[s.Out.Buf].Place == Temp {
			full[s.Out.Buf] = s.In[0]
			continue
		}
		if !s.Op.Info().Weak || len(s.In) < 2 {
			continue
		}
		for i, o := range s.In {
			x, ok := full[o.Buf]
			if !ok || o.Scalar >= 0 || !rw.tensorBeside(s, i) {
				continue
			}
			s.In[i] = x
		}
	}
}

// tensorBeside reports whether an operand other than i gives the step its dtype.
func (rw *rewriter) tensorBeside(s *Step, i int) bool {
	for k, o := range s.In {
		if k != i && o.Scalar < 0 && o.DType == s.In[i].DType {
			return true
		}
	}
	return false
}
