package compile

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// elementWork is the work of one operation on one element, in multiply-adds of a matrix
// product: about the ratio of their times.
const elementWork = 16

// Work estimates the work of a plan in multiply-adds of a matrix product. It is a
// function of the program and the passes alone, so every machine finds the same, and it
// is math.MaxInt for more than an int holds.
func (p *Plan) Work() int {
	total := 0
	for i := range p.Steps {
		total = plus(total, p.Steps[i].work())
	}
	return total
}

// work returns the work of a step: that of its products, and of its operations on each
// element that it reads or writes. Views may make it far more than the bytes that exist.
func (s *Step) work() int {
	n := 0
	for i := range s.In {
		if s.In[i].Scalar < 0 {
			n = max(n, elems(s.In[i].Shape))
		}
	}
	for _, o := range s.Outs() {
		n = max(n, elems(o.Shape))
	}
	return plus(s.products(), times(elementWork, times(n, max(len(s.Body), 1))))
}

// products returns the multiply-adds of a step's matrix products, windows and sums.
func (s *Step) products() int {
	out := elems(s.Out.Shape)
	switch s.Fused {
	case Attention, AttentionGrad:
		q, v := s.In[0].Shape, s.In[2].Shape
		work := times(elems(q[:len(q)-1]), times(v[len(v)-2], plus(last(q), last(v))))
		if s.Fused == AttentionGrad { // five products of the two sizes
			work = times(3, work)
		}
		return work
	case Epilogue:
		return times(elems(s.In[0].Shape), last(s.In[1].Shape))
	case AdamWProduct:
		return times(elems(s.In[3].Shape), last(s.In[4].Shape))
	case Single:
	default:
		return 0
	}
	switch s.Op {
	case tensor.OpMatmul:
		return times(out, last(s.In[0].Shape))
	case tensor.OpConv2D:
		return times(out, elems(s.In[1].Shape[1:]))
	case tensor.OpConv2DGradX: // of (dy, w)
		return times(elems(s.In[0].Shape), elems(s.In[1].Shape[1:]))
	case tensor.OpConv2DGradW: // of (x, dy)
		return times(elems(s.In[1].Shape), elems(s.Out.Shape[1:]))
	case tensor.OpMaxPool2D, tensor.OpAvgPool2D:
		return times(elementWork, times(out, s.window()))
	case tensor.OpMaxPool2DGrad: // of (x, dy)
		return times(elementWork, times(elems(s.In[1].Shape), s.window()))
	case tensor.OpAvgPool2DGrad: // of dy
		return times(elementWork, times(elems(s.In[0].Shape), s.window()))
	}
	return 0
}

// window returns the elements of a pool's window.
func (s *Step) window() int { return times(int(s.Ints[0]), int(s.Ints[1])) }

// elems returns the number of elements of a shape, or of some of its dims, which may be
// more than an int holds.
func elems(s tensor.Shape) int {
	n := 1
	for _, d := range s {
		if d == 0 {
			return 0
		}
		n = times(n, d)
	}
	return n
}

// plus returns a+b, and times a*b, of numbers of at least 0: math.MaxInt if an int does
// not hold it.
func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

func times(a, b int) int {
	if a != 0 && b > math.MaxInt/a {
		return math.MaxInt
	}
	return a * b
}
