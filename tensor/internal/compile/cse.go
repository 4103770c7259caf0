package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// stepKey finds steps that may be equal: it has the operation and the first operands,
// buffers or scalars.
type stepKey struct {
	op   tensor.Op
	args [3]int
	era  int
	ints int64 // a hash of the attributes
}

func (rw *rewriter) keyOf(s *Step) stepKey {
	k := stepKey{op: s.Op, era: rw.era[s.Instr]}
	for i, o := range s.In[:min(3, len(s.In))] {
		if k.args[i] = o.Buf + 1; o.Scalar >= 0 {
			k.args[i] = -1 - o.Scalar
		}
	}
	for _, x := range s.Ints {
		k.ints = k.ints*1_000_003 + x
	}
	return k
}

// commonSteps removes steps that compute the same as an earlier step of the same era from
// the same operands. Two scalars are the same if they are one argument of the program:
// the values differ from run to run.
func (rw *rewriter) commonSteps(_ *graph, e *edit) {
	seen := map[stepKey][]int{}
	into := map[int]int{} // from a removed step's buffer to the equal one
	for k := range rw.plan.Steps {
		s := &rw.plan.Steps[k]
		for i := range s.In {
			if b, ok := into[s.In[i].Buf]; ok && s.In[i].Scalar < 0 {
				s.In[i].Buf = b
			}
		}
		key := rw.keyOf(s)
		if rw.plan.Buffers[s.Out.Buf].Place == Temp {
			at := slices.IndexFunc(seen[key], func(j int) bool { return equalSteps(&rw.plan.Steps[j], s) })
			if at >= 0 {
				into[s.Out.Buf] = rw.plan.Steps[seen[key][at]].Out.Buf
				e.gone[k] = true
				continue
			}
		}
		seen[key] = append(seen[key], k)
	}
}

func equalSteps(a, b *Step) bool {
	return a.Op == b.Op && a.Out.DType == b.Out.DType && a.Out.Shape.Equal(b.Out.Shape) &&
		slices.EqualFunc(a.In, b.In, same) && slices.Equal(a.Ints, b.Ints)
}
