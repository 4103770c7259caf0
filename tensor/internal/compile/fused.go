package compile

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// Fused is the kind of a step: it says which operations the step joins, and what In, Out
// and Also hold.
//
//	Single         the operation Op
//	Tiles          the elementwise operations Body over the elements of Out;
//	               all outputs have the same number of elements
//	Attention      in   q [D s d], k [D t d], v [D t e], scale
//	               out  y [D s e] = softmax(q kᵀ scale) v, causal if Ints[0] is 1
//	AttentionGrad  in   q, k, v, scale, dy [D s e], the scale of the gradient;
//	                    Ints as above
//	               out  dq [D s d], dk [U t d], dv [U t e]: D is U followed by
//	                    the dims over which k and v are broadcast
//	JoinPads       in   pieces in their order along dim Ints[0], then the value that
//	                    each was padded with
//	               out  the sum of the padded pieces; a piece may lie there already
//	NormGrad       in   those of Op, OpLayerNormGradX or OpRMSNormGradX, then the
//	                    scalar eps of the gradient of w
//	               out  dx, dw, and for a layer norm with Ints[1] set db, the sum of
//	                    dy over all rows
//	LossGrad       in   those of OpCrossEntropyGrad
//	               out  the gradient, the loss
//	TilesFold      in   those of Tiles, with the shape that is reduced
//	               out  the reduction Op (a sum, mean, amax or amin with attributes
//	                    Ints) of the last result of Body, which is never written
//	Epilogue       in   the matrices a [m k] and b [k n], then those of Tiles over
//	                    [m n]
//	               out  those of Tiles; Body[0] is the product, and a later operation
//	                    of Body may overwrite the output that holds it
//	AdamW          in   (p, m, v, g, beta1, beta2, lr, wd, eps, c1, c2) of each
//	                    parameter
//	               out  (p, m, v) of each
//	AdamWProduct   in   p, m, v of one parameter, the matrices a and b whose product
//	                    is its gradient, the scalars of AdamW
//	               out  p, m, v
//
//	HalfRows       in   those of Op, a reduction or an operation on rows, of which
//	                    some that Op has as f32 are of 16 bits
//	               out  that of Op; of 16 bits it is only that of an operation on
//	                    rows
//
// Operands of attention have their full shape, with stride 0 where they are broadcast;
// both dims of a matrix may be strided. Its outputs may be strided too, but no two
// elements overlap.
type Fused uint8

// The kinds of steps.
const (
	Single Fused = iota
	Tiles
	Attention
	AttentionGrad
	JoinPads
	NormGrad
	LossGrad
	AdamW
	TilesFold
	Epilogue
	AdamWProduct
	HalfRows
)

// AdamWIn is the number of operands of each parameter in an AdamW step.
const AdamWIn = 11

func (f Fused) String() string {
	return [...]string{
		"single", "tiles", "attention", "attention_grad", "join_pads", "norm_grad",
		"loss_grad", "adamw_all", "tiles_fold", "epilogue", "adamw_product", "half_rows",
	}[f]
}

// Inst is an operation in the body of a Tiles, TilesFold or Epilogue step. In holds the
// arguments of the operation: In[k] >= 0 is the operand of the step with that number, and
// In[k] < 0 the result of Body[-1-In[k]].
type Inst struct {
	Instr int
	Op    tensor.Op
	DType tensor.DType
	In    []int
	Ints  []int64
	// Out is an output of the step: 0 for Out, i for Also[i-1]; -1 if the result stays in
	// the step.
	Out int
}

// is reports whether the step is the single operation op.
func (s *Step) is(op tensor.Op) bool { return s.Fused == Single && s.Op == op }

// Outs returns all outputs of the step, Out first.
func (s *Step) Outs() []*Operand {
	all := make([]*Operand, 1, 1+len(s.Also))
	all[0] = &s.Out
	for i := range s.Also {
		all = append(all, &s.Also[i])
	}
	return all
}

// Name returns the name of the operation, or of all operations that the step joins.
func (s *Step) Name() string {
	switch s.Fused {
	case Single, HalfRows:
		return s.Op.String()
	case Tiles, TilesFold, Epilogue:
		var names []string
		for _, in := range s.Body {
			names = append(names, in.Op.String())
		}
		name := "{" + strings.Join(names, " ") + "}"
		if s.Fused == TilesFold {
			name = s.Op.String() + name
		}
		return name
	case AdamW:
		return fmt.Sprintf("%v*%d", s.Fused, len(s.In)/AdamWIn)
	}
	return s.Fused.String()
}
