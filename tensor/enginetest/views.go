package enginetest

import (
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
)

// square is the side of the operands of views; larger than a vector register of float32.
const square = 18

// viewsOf returns views of arrays with other layouts: each is [18 18], of a base of its
// own.
func viewsOf(s *tensor.Session, d tensor.DType, from float64) []*tensor.Tensor {
	const n = square
	base := func(sh ...int) *tensor.Tensor {
		a := newArray(tensor.F64, sh)
		for k := range a.f {
			a.f[k] = from + float64(k*7%31)/8
		}
		return put(s, a.cast(d))
	}
	step := func(by int) tensor.Range { return tensor.By(tensor.All, tensor.All, by) }
	return []*tensor.Tensor{
		base(n, n),
		base(n, n).T(),
		base(n, n).Flip(0),
		base(n, n).Flip(1),
		base(n, n).T().Flip(0, 1),
		base(2*n, 2*n).Slice(step(2), step(2)),
		base(2*n, 2*n).Slice(step(-2), step(2)),
		base(2*n, 2*n).Slice(step(2), step(-2)).T(),
		base(n+3, n+5).Slice(tensor.To(2, n+2), tensor.To(5, n+5)),
		base(1, n).Expand(n, n),
		base(n, 1).Expand(n, n),
		base().Expand(n, n),
		base(n).Flip(0).Expand(n, n),
		base(2, n, n/2).Permute(1, 0, 2).Reshape(n, n),
		base(3, n, n).Slice(tensor.At(1)),
	}
}

// unaryViewed returns operations on one square operand, and floatViewed those of floats.
func unaryViewed() []func(x *tensor.Tensor) *tensor.Tensor {
	const n = square
	return []func(x *tensor.Tensor) *tensor.Tensor{
		(*tensor.Tensor).Neg,
		func(x *tensor.Tensor) *tensor.Tensor { return x.Clamp(0.5, 2) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Cast(tensor.I32) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Sum() },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Sum(0) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Mean(1) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Max(0) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Argmin(1) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Cumsum(0) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Pad(1, [2]int{1, 0}, [2]int{0, 2}) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Tril(1) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Reshape(2, n*n/2) },
		func(x *tensor.Tensor) *tensor.Tensor {
			return x.IndexSelect(1, put(x.Session(), integers(tensor.I32, 3, 0, n-1)))
		},
		func(x *tensor.Tensor) *tensor.Tensor {
			return x.IndexAdd(0, put(x.Session(), integers(tensor.I64, 4, 4, 1)), x.Narrow(0, 2, 3))
		},
		func(x *tensor.Tensor) *tensor.Tensor {
			idx := put(x.Session(), integers(tensor.I64, 3, 0, n-1, 7)).Expand(n, 4)
			return x.Gather(1, idx).Add(x.ScatterAdd(1, idx, x.Narrow(1, 0, 4)).Narrow(1, 3, 4))
		},
	}
}

func floatViewed() []func(x *tensor.Tensor) *tensor.Tensor {
	const n = square
	return []func(x *tensor.Tensor) *tensor.Tensor{
		(*tensor.Tensor).Exp, (*tensor.Tensor).Sqrt,
		func(x *tensor.Tensor) *tensor.Tensor { return x.Softmax(0) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.LogSoftmax(1) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.CausalSoftmax(0.5) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.RMSNorm(nil, 1e-5) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.LayerNorm(nil, nil, 1e-5, 2) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Dropout(0.5) },
		func(x *tensor.Tensor) *tensor.Tensor {
			return x.Session().Apply(tensor.OpConv2D, []int64{1, 1, 1, 1, 1, 1, 1}, tensor.T(x.Reshape(1, 2, n/2, n)), tensor.T(x.Slice(tensor.To(0, 2), tensor.To(0, n)).Reshape(2, 2, 3, 3)))
		},
		func(x *tensor.Tensor) *tensor.Tensor { return x.Reshape(1, 2, n/2, n).MaxPool2D(2, 0, 0) },
		func(x *tensor.Tensor) *tensor.Tensor { return x.Reshape(1, 2, n/2, n).AvgPool2D(3, 1, 1) },
		func(x *tensor.Tensor) *tensor.Tensor {
			return x.CrossEntropy(tensor.Arange(x.Session(), tensor.I64, n-1, -1, n), -100)
		},
		func(x *tensor.Tensor) *tensor.Tensor {
			return x.Rope(x.Narrow(1, 0, n/2), x.Narrow(1, n/2, n/2))
		},
	}
}

// binaryViewed returns operations on two square operands, and floatsViewed those of
// floats.
func binaryViewed() []func(x, y *tensor.Tensor) *tensor.Tensor {
	const n = square
	return []func(x, y *tensor.Tensor) *tensor.Tensor{
		(*tensor.Tensor).Add, (*tensor.Tensor).Div, (*tensor.Tensor).Maximum, (*tensor.Tensor).Lt, (*tensor.Tensor).Matmul,
		func(x, y *tensor.Tensor) *tensor.Tensor { return tensor.Where(x.GtS(1), x, y) },
		func(x, y *tensor.Tensor) *tensor.Tensor { return tensor.Concat(1, x, y) },
		func(x, y *tensor.Tensor) *tensor.Tensor {
			return x.Reshape(3, n/3, n).Matmul(y.Reshape(n, 3, n/3).Permute(1, 0, 2))
		},
	}
}

func floatsViewed() []func(x, y *tensor.Tensor) *tensor.Tensor {
	return []func(x, y *tensor.Tensor) *tensor.Tensor{
		func(x, y *tensor.Tensor) *tensor.Tensor {
			return x.Session().Apply(tensor.OpSoftmaxGrad, []int64{1}, tensor.T(x), tensor.T(y))
		},
		func(x, y *tensor.Tensor) *tensor.Tensor {
			return x.Session().Apply(tensor.OpSGD, nil, tensor.T(x), tensor.T(y), tensor.S(0.1), tensor.S(0.01))
		},
	}
}

// views gives operations operands that are not materialised: transposed, reversed, with
// gaps, repeated. Of the pairs of two operands it takes half, or a sample in which every
// view is each of the operands.
func (s *suite) views(t *testing.T) {
	apart := 2
	if testsize.Sampled() {
		apart = 8
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32} {
		t.Run(d.String(), func(t *testing.T) {
			dr := s.driver(t)
			unary, binary := unaryViewed(), binaryViewed()
			if d.IsFloat() {
				unary, binary = append(unary, floatViewed()...), append(binary, floatsViewed()...)
			}
			for _, f := range unary {
				dr.viewed(d, func(xs, _ []*tensor.Tensor) (out []*tensor.Tensor) {
					for _, x := range xs {
						out = append(out, f(x))
					}
					return out
				})
			}
			for _, f := range binary {
				dr.viewed(d, func(xs, ys []*tensor.Tensor) (out []*tensor.Tensor) {
					for i, x := range xs {
						for j, y := range ys {
							if (i+j)%apart == 0 {
								out = append(out, f(x, y))
							}
						}
					}
					return out
				})
			}
		})
	}
}

// viewed runs f on two sets of views, none of which is kept, and compares the results
// with the reference.
func (dr *driver) viewed(d tensor.DType, f func(xs, ys []*tensor.Tensor) []*tensor.Tensor) {
	t := dr.t
	t.Helper()
	p := recorded(t, func(sess *tensor.Session) []*tensor.Tensor {
		out := f(viewsOf(sess, d, 0.25), viewsOf(sess, d, 1.5))
		if err := sess.Err(); err != nil {
			t.Fatal(err)
		}
		return out
	}).flags(nil, false)
	want, err := interpret(p.p, p.inputs, p.scalars, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := dr.results(p)
	for _, i := range p.kept() {
		c := callOf(p.p, i, want, p.inputs, p.scalars)
		w, tol, err := bound(c, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		if !equal(t, got[i], w, tol, "%v of %s %v:", c.op, c.inputs(), c.ints) {
			return
		}
	}
}
