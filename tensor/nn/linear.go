package nn

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// Result returns the result of f, computed without a graph, and releases the
// intermediates.
func Result(s *tensor.Session, f func() *tensor.Tensor) (x *tensor.Tensor) {
	s.NoGrad(func() {
		s.Scope(func(sc *tensor.Scope) { x = sc.Keep(f()) })
	})
	return x
}

// param returns the result of f as a parameter.
func param(s *tensor.Session, f func() *tensor.Tensor) *tensor.Tensor {
	return Result(s, f).RequireGrad()
}

// Uniform returns a parameter of uniform numbers in [-bound, bound).
func Uniform(s *tensor.Session, bound float64, shape ...int) *tensor.Tensor {
	return param(s, func() *tensor.Tensor { return tensor.Rand(s, tensor.F32, shape...).MulS(2 * bound).SubS(bound) })
}

// Normal returns a parameter of normal numbers with mean 0.
func Normal(s *tensor.Session, deviation float64, shape ...int) *tensor.Tensor {
	return param(s, func() *tensor.Tensor { return tensor.RandN(s, tensor.F32, shape...).MulS(deviation) })
}

// Constant returns a parameter whose elements are all x.
func Constant(s *tensor.Session, x float64, shape ...int) *tensor.Tensor {
	return param(s, func() *tensor.Tensor { return tensor.Full(s, tensor.F32, x, shape...) })
}

// Linear is x Wᵀ + b over the last dim.
type Linear struct {
	Weight *tensor.Tensor // [out, in]
	Bias   *tensor.Tensor // [out], or nil
}

// NewLinear returns a layer whose weights and bias are uniform within 1/sqrt(in).
func NewLinear(s *tensor.Session, in, out int, bias bool) *Linear {
	bound := 1 / math.Sqrt(float64(max(in, 1)))
	l := &Linear{Weight: Uniform(s, bound, out, in)}
	if bias {
		l.Bias = Uniform(s, bound, out)
	}
	return l
}

// Params implements Module: weight and bias.
func (l *Linear) Params() []tensor.Named { return weightBias(l.Weight, l.Bias) }

// weightBias returns the two parameters of most layers with names; either may be nil.
func weightBias(w, b *tensor.Tensor) []tensor.Named {
	var ps []tensor.Named
	if w != nil {
		ps = append(ps, tensor.Named{Name: "weight", T: w})
	}
	if b != nil {
		ps = append(ps, tensor.Named{Name: "bias", T: b})
	}
	return ps
}

// Forward maps [.., in] to [.., out].
func (l *Linear) Forward(x *tensor.Tensor) *tensor.Tensor {
	y := x.Matmul(l.Weight.T())
	if l.Bias != nil {
		y = y.Add(l.Bias)
	}
	return y
}

// Embedding is a table of vectors.
type Embedding struct {
	Weight *tensor.Tensor // [n, dim]
}

// NewEmbedding returns a table of n vectors of normal numbers.
func NewEmbedding(s *tensor.Session, n, dim int) *Embedding {
	return &Embedding{Weight: Normal(s, 1, n, dim)}
}

// Params implements Module: weight.
func (l *Embedding) Params() []tensor.Named { return weightBias(l.Weight, nil) }

// Forward maps indices (i32, i64) [..] to [.., dim]. An index out of range is an error at
// the next sync point.
func (l *Embedding) Forward(idx *tensor.Tensor) *tensor.Tensor {
	return tensor.Embedding(l.Weight, idx)
}
