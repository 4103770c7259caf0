package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// lowerer turns steps of plans into functions, for the kernels and threads of one device.
type lowerer struct {
	table   *kernel.Table[float32]
	table64 *kernel.Table[float64]
	plain   *kernel.Plain
	folds   *kernel.Folds
	loops   map[tensor.DType]loopsOf // by the dtype of the operands
	threads int
	eager   bool // share steps however small, for tests
}

// plan turns a plan's steps into functions. All choices that depend on dtypes, shapes and
// strides are made here, once.
func (lw *lowerer) plan(p *compile.Plan) []lowered {
	out := make([]lowered, 0, len(p.Steps))
	total := 0
	for i := range p.Steps {
		s := &p.Steps[i]
		l := lowered{instr: s.Instr}
		cost := lw.workOf(s)
		switch s.Fused {
		case compile.Single:
			switch s.Op {
			case tensor.OpCrossEntropy:
				l.f, l.after, l.sums = lw.crossEntropy(s, nil, &s.Out)
			case tensor.OpCrossEntropyGrad:
				l.f, l.after, l.sums = lw.crossEntropy(s, &s.Out, nil)
			case tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
				if s.Out.DType == tensor.F64 {
					l = normGradW(s, lw.table64)
				} else {
					l = normGradW(s, lw.table)
				}
				l.instr = s.Instr
			case tensor.OpPad:
				l.f, l.second = movesBySize[s.Out.DType.Size()].pad(s)
			default:
				if s.Op.Info().Class == tensor.ClassReduction {
					l = lw.reduction(s)
					l.instr = s.Instr
				} else {
					l.f = lw.step(s)
				}
			}
		case compile.HalfRows:
			if s.Op.Info().Class == tensor.ClassReduction {
				l = lw.reduction(s)
				l.instr = s.Instr
			} else {
				l.f = lw.halfRows(s)
			}
		case compile.LossGrad:
			l.f, l.after, l.sums = lw.crossEntropy(s, &s.Out, &s.Also[0])
		case compile.Tiles:
			l.f = lw.tiles(s)
		case compile.Epilogue:
			if l.f = roundedTiles(lw, p, i); l.f == nil {
				l.f, l.second = lw.epilogue(s)
			}
		case compile.TilesFold:
			l.f = lw.tilesFold(s)
		case compile.NormGrad:
			l.f, l.after, l.sums = lw.normGrad(s)
		case compile.AdamW:
			l.f = lw.adamw(s)
		case compile.AdamWProduct:
			l.f = lw.adamwProduct(s)
		case compile.Attention:
			l.f = lw.attention(s)
		case compile.AttentionGrad:
			l.f = lw.attentionGrad(s)
		case compile.JoinPads:
			l.f = lw.joinPads(s)
		default:
			panic(fmt.Sprintf("cpu: no lowering for %v", s.Fused)) // compile has no other
		}
		if lw.threads > 1 && cost > 0 && (cost >= minShared || lw.eager) {
			l.parts = lw.partsOf(s, cost)
			total += cost
			if s.Fused == compile.Epilogue && l.second != nil && wholeRows(s, l.parts) {
				l.second = nil
			}
		}
		out = append(out, l)
	}
	if total < minSharedPlan && !lw.eager {
		for i := range out {
			out[i].parts = 1
		}
	}
	return out
}

const (
	// minShared is the least work of a step, in quarters of a nanosecond of one thread,
	// that is worth sharing with threads that spin, given the cost of handing it over.
	minShared = 4 * 1500
	// partWork is the approximate least work of a part, where there are more parts than
	// threads. With several parts a thread, fast threads do more, as others may start
	// late or lose their core.
	partWork = 4 * 12_000
	// partsOfThread is the most parts for each thread.
	partsOfThread = 4
	// productPart is partWork of a matrix product, whose parts pack operands anew.
	// largeProduct is the work of a product from which that costs more than it may win.
	productPart  = 4 * 15_000
	largeProduct = 4 * 500_000
	// lossRow is the work of a row of a loss, however short.
	lossRow = 4 * 60
	// minSharedPlan is the least work of a plan's shared steps that is worth waking
	// parked threads for.
	minSharedPlan = 4 * 100_000
)

// partsOf returns the number of parts of a step of that work: a multiple of the threads.
func (lw *lowerer) partsOf(s *compile.Step, work int) int {
	threads := lw.threads
	part := partWork
	switch {
	case threads*partsOfThread > maxParts:
		return min(threads, maxParts)
	case lw.eager:
		return 2 * threads
	case s.Fused != compile.Single && s.Fused != compile.HalfRows && s.Fused != compile.Epilogue && s.Fused != compile.AdamWProduct:
	case s.Op == tensor.OpMatmul || s.Fused == compile.AdamWProduct:
		if work >= largeProduct {
			return threads
		}
		part = productPart
	case s.Op == tensor.OpConv2DGradW || s.Op == tensor.OpIndexAdd || s.Op.Info().Class == tensor.ClassReduction:
		return threads // every part reads all of an operand
	}
	return threads * min(max(work/(part*threads), 1), partsOfThread)
}

// workOf estimates the work of a step that threads may share in quarters of a nanosecond.
// It returns 0 for one that one thread does alone.
func (lw *lowerer) workOf(s *compile.Step) int {
	n := s.Out.Shape.Elems()
	switch s.Fused {
	case compile.Tiles:
		return len(s.Body) * n
	case compile.Epilogue:
		return epilogueWork(lw.table.Brain, s)
	case compile.AdamWProduct:
		return adamwProductWork(s)
	case compile.TilesFold:
		if n == 1 {
			return 0
		}
		return (len(s.Body) + 1) * shapeOfTiles(s).Elems()
	case compile.NormGrad:
		return 6 * n
	case compile.Attention:
		return bounded(n, s.In[1].Shape[len(s.In[1].Shape)-2]) / 10
	case compile.AttentionGrad:
		return bounded(n, s.In[1].Shape[len(s.In[1].Shape)-2]) / 4
	case compile.JoinPads:
		return 0
	case compile.AdamW:
		for _, o := range s.Also {
			n += o.Shape.Elems()
		}
		return n
	}
	switch s.Op {
	case tensor.OpMatmul:
		return productWork(lw.table.Brain, s)
	case tensor.OpConv2D, tensor.OpConv2DGradX:
		w := s.In[1].Shape
		return bounded(n, w[1]*w[2]*w[3]) / 10
	case tensor.OpConv2DGradW:
		return directGradWork(s)
	case tensor.OpMaxPool2D, tensor.OpAvgPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2DGrad:
		return 4 * max(n, s.In[0].Shape.Elems())
	case tensor.OpSoftmax, tensor.OpLogSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad:
		return 4 * n
	case tensor.OpCausalSoftmax, tensor.OpRope, tensor.OpLayerNorm, tensor.OpRMSNorm, tensor.OpLayerNormGradX, tensor.OpRMSNormGradX:
		return 4 * n
	case tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
		return 4 * s.In[0].Shape.Elems()
	case tensor.OpCrossEntropy, tensor.OpCrossEntropyGrad:
		return 4*s.In[0].Shape.Elems() + lossRow*s.In[0].Shape[0]
	case tensor.OpIndexAdd:
		return s.Out.Shape.Elems()/2 + s.In[2].Shape.Elems()
	case tensor.OpFull:
		return copyWork(s) / 2
	case tensor.OpRand, tensor.OpDropout, tensor.OpArange:
		return 4 * n
	case tensor.OpRandN:
		return 40 * n
	case tensor.OpCumsum, tensor.OpProdGrad:
		return 8 * n
	case tensor.OpIndexSelect:
		return copyWork(s)
	case tensor.OpGather:
		return 8 * n
	case tensor.OpScatterAdd:
		if s.Ints[0] == 0 {
			return 0
		}
		return n + 8*s.In[1].Shape.Elems()
	case tensor.OpCast:
		if s.In[0].DType == s.Out.DType {
			return copyWork(s)
		}
	case tensor.OpConcat, tensor.OpPad, tensor.OpTril, tensor.OpTriu:
		return copyWork(s)
	}
	switch s.Op.Info().Class {
	case tensor.ClassElementwise:
		return n
	case tensor.ClassReduction:
		if s.Out.Shape.Elems() > 0 && lw.fold(s, foldingOf(s.In[0], s.Ints[1:])).f != nil {
			return s.In[0].Shape.Elems() / 2
		}
		if n > 0 {
			return 2 * s.In[0].Shape.Elems()
		}
	}
	return 0
}

// productWork returns the work of the matrix product in s, at 200 GFLOP/s, or 1 TFLOP/s
// by tiles. Columns are computed in whole vectors.
func productWork(brain *kernel.BrainProducts, s *compile.Step) int {
	a, b := s.In[0].Shape, s.In[1].Shape
	n := b[len(b)-1]
	if n == 0 {
		return 0
	}
	const vector = 16
	work := bounded(bounded(s.Out.Shape.Elems()/n, (n+vector-1)/vector*vector), a[len(a)-1]) / 25
	if byTiles(brain, s) {
		work /= 5
	}
	return work
}

// copyWork returns the work of a copy of all of the result of s, at 16 GB/s.
func copyWork(s *compile.Step) int { return s.Out.Shape.Elems() * s.Out.DType.Size() / 4 }

// bounded returns a*b, or a number that is large enough.
func bounded(a, b int) int {
	const large = 1 << 40
	if a != 0 && b > large/a {
		return large
	}
	return a * b
}

func (lw *lowerer) step(s *compile.Step) func(r *run) error {
	if s.Out.Shape.Elems() == 0 && !s.Op.Info().Fallible {
		return nothing // also for many rows of no elements
	}
	move := movesBySize[s.Out.DType.Size()]
	switch s.Op {
	case tensor.OpFull, tensor.OpArange:
		return lw.leaf(s)
	case tensor.OpRand, tensor.OpRandN:
		return random(s)
	case tensor.OpDropout:
		return lw.dropout(s)
	case tensor.OpCast:
		if s.In[0].DType == s.Out.DType {
			return move.plainCopy(s)
		}
	case tensor.OpMatmul:
		return lw.matmul(s)
	case tensor.OpConv2D, tensor.OpConv2DGradX, tensor.OpConv2DGradW:
		if f := lw.direct(s); f != nil {
			return f
		}
	case tensor.OpConcat:
		return move.concat(s)
	case tensor.OpTril, tensor.OpTriu:
		return move.triangle(s)
	case tensor.OpIndexSelect:
		return move.indexSelect(s)
	case tensor.OpGather:
		return move.gather(s)
	case tensor.OpOneHot:
		return oneHot(s)
	case tensor.OpIndexAdd:
		return lw.indexAdd(s)
	case tensor.OpScatterAdd:
		return numericBy[s.Out.DType].scatterAdd(s)
	case tensor.OpProdGrad:
		if s.Out.DType == tensor.F64 {
			return prodGrad(s, others[float64]{product: lw.folds.LongProduct, k: lw.table64, transpose: lw.table64.Transpose})
		}
		return prodGrad(s, others[float32]{lw.folds.LongProduct, lw.table64, lw.table.Transpose, lw.table.Double, lw.table.Single, lw.table.RDivS})
	case tensor.OpCumsum:
		return numericBy[s.In[0].DType].cumsum(s)
	}
	switch s.Op.Info().Class {
	case tensor.ClassElementwise:
		return lw.elementwise(s)
	}
	if s.Out.DType == tensor.F64 {
		return rowwise(s, lw.table64, gemm64)
	}
	return rowwise(s, lw.table, gemm32)
}

func nothing(*run) error { return nil }

// buf returns operand o's elements, from its first on.
func buf[T any](r *run, o *compile.Operand) []T {
	b := slice[T](r.bufs[o.Buf])
	return b[min(o.Off, len(b)):] // a view of no elements may point beyond
}
