package compile

import "github.com/ringside-go/ringside/tensor"

// constants replaces operands of elementwise steps that are tensors full of one number
// by the scalar, and makes a cast of such a tensor to 16 bits a full of 16 bits, which
// rounds the number to f32 first. It leaves integers alone: a scalar beside them is
// converted by other rules than the one that full takes.
func (rw *rewriter) constants(*graph, *edit) {
	full := map[int]Operand{} // scalars, by buffer
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		if s.Op == tensor.OpFull && s.Out.DType.IsFloat() && rw.plan.Buffers[s.Out.Buf].Place == Temp {
			full[s.Out.Buf] = s.In[0]
			continue
		}
		if s.is(tensor.OpCast) && s.Out.DType.IsHalf() && s.In[0].DType == tensor.F32 {
			if x, ok := full[s.In[0].Buf]; ok {
				fullHalf(s, x)
			}
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

// fullHalf makes s, a cast to 16 bits of a tensor full of x, a full.
func fullHalf(s *Step, x Operand) {
	s.Op, s.In, s.Ints = tensor.OpFull, []Operand{x}, []int64{int64(s.Out.DType)}
	for _, n := range s.Out.Shape {
		s.Ints = append(s.Ints, int64(n))
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
