package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// rowwise lowers an operation on rows by the kernels k and the product mul.
func rowwise[T float](s *compile.Step, k *kernel.Table[T], mul product[T]) func(r *run) error {
	switch s.Op {
	case tensor.OpSoftmax, tensor.OpSoftmaxGrad:
		if int(s.Ints[0]) == len(s.Out.Shape)-1 {
			return softmax(s, k)
		}
		return alongDim(s, k)
	case tensor.OpLogSoftmax, tensor.OpLogSoftmaxGrad:
		return alongDim(s, k)
	case tensor.OpCausalSoftmax:
		return causal(s, k)
	case tensor.OpLayerNorm, tensor.OpRMSNorm, tensor.OpLayerNormGradX, tensor.OpRMSNormGradX:
		return norm(s, k)
	case tensor.OpRope:
		return rope(s, k)
	case tensor.OpConv2D, tensor.OpConv2DGradX, tensor.OpConv2DGradW:
		return convolution(s, mul)
	case tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad:
		return pooling[T](s)
	}
	panic(fmt.Sprintf("cpu: no kernel for %v", s.Op)) // the op table has no other
}

// scratchRow returns one of four rows of n elements.
func scratchRow[T any](r *run, i, n int) []T {
	words := (n*sizeOf[T]() + 7) / 8
	r.rows[i] = grow(r, r.rows[i], max(words, 1))
	return slice[T](bytesOf(r.rows[i]))[:n]
}

// alongDim lowers softmax and related operations. Rows along the last dim are read in
// place, few columns beside each other are copied out and back.
func alongDim[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	if inner >= minColumns {
		return softmaxColumns(s, k)
	}
	row := func(dst, a, b []T) {
		switch s.Op {
		case tensor.OpSoftmax:
			k.Softmax(dst, a, 1)
		case tensor.OpSoftmaxGrad:
			k.SoftmaxGrad(dst, a, b, 1)
		case tensor.OpLogSoftmax:
			k.LogSoftmax(dst, a)
		default:
			k.LogSoftmaxGrad(dst, a, b)
		}
	}
	cut := int(s.Ints[0])
	walk := newNest(s.Out.Shape[:cut], s.Out.Strides[:cut], s.In[0].Strides[:cut], s.In[len(s.In)-1].Strides[:cut])
	if s.Op == tensor.OpLogSoftmax && inner == 1 {
		walk.longestInner()
		return func(r *run) error {
			out, x, room := buf[T](r, &s.Out), buf[T](r, &s.In[0]), scratchRow[T](r, 0, kernel.LogSoftmaxRoom)
			walk.runs(r, n, func(count, o, i, _, _ int) {
				k.LogSoftmaxRows(rowsOf(&walk, 0, out, o), rowsOf(&walk, 1, x, i), room, count, n)
			})
			return nil
		}
	}
	return func(r *run) error {
		dst, a := buf[T](r, &s.Out), buf[T](r, &s.In[0])
		b := a
		if len(s.In) > 1 {
			b = buf[T](r, &s.In[1])
		}
		if inner == 1 {
			walk.rows(r, func(_, o, i, j, _ int) { row(dst[o:o+n], a[i:i+n], b[j:j+n]) })
			return nil
		}
		x, y, z := scratchRow[T](r, 0, n), scratchRow[T](r, 1, n), scratchRow[T](r, 2, n)
		lo, hi := r.share(outer, 1)
		for o := lo; o < hi; o++ {
			for i := range inner {
				if r.stopped() {
					return nil
				}
				for j := range n {
					at := (o*n+j)*inner + i
					x[j], y[j] = a[at], b[at]
				}
				row(z, x, y)
				for j := range n {
					dst[(o*n+j)*inner+i] = z[j]
				}
			}
		}
		return nil
	}
}

func causal[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	sh := s.Out.Shape
	last := len(sh) - 1
	rows, cols := sh[last-1], sh[last]
	walk := newNest(sh[:last], s.Out.Strides[:last], s.In[0].Strides[:last])
	return func(r *run) error {
		scale := T(r.scalars[s.In[1].Scalar])
		x, y := buf[T](r, &s.In[0]), buf[T](r, &s.Out)
		walk.rows(r, func(i, o, at, _, _ int) {
			seen := i%rows + cols - rows + 1
			dst, src := y[o:o+cols], x[at:at+seen]
			if scale > 0 {
				k.Softmax(dst[:seen], src, scale)
			} else { // the kernel finds the largest x, which is then the smallest x*scale
				t := scratchRow[T](r, 0, seen)
				for j := range t {
					t[j] = src[j] * scale
				}
				k.Softmax(dst[:seen], t, 1)
			}
			clear(dst[seen:])
		})
		return nil
	}
}

// softmax lowers softmax along the last dim, or its gradient.
func softmax[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	last := len(s.Out.Shape) - 1
	n := s.Out.Shape[last]
	second := s.In[len(s.In)-1]
	walk := newNest(s.Out.Shape[:last], s.Out.Strides[:last], s.In[0].Strides[:last], second.Strides[:last])
	walk.longestInner()
	return func(r *run) error {
		out, x, y := buf[T](r, &s.Out), buf[T](r, &s.In[0]), buf[T](r, &second)
		walk.runs(r, n, func(count, o, i, j, _ int) {
			dst, a := rowsOf(&walk, 0, out, o), rowsOf(&walk, 1, x, i)
			if s.Op == tensor.OpSoftmax {
				k.SoftmaxRows(dst, a, count, n, n, 0, 1)
			} else {
				k.SoftmaxGradRows(dst, a, rowsOf(&walk, 2, y, j), count, n, n, 0, 1)
			}
		})
		return nil
	}
}

// rowsOf returns the rows of operand k of a nest that lies in data, from element i on.
func rowsOf[T float](n *nest, k int, data []T, i int) kernel.Rows[T] {
	return kernel.Rows[T]{Data: data[i:], Stride: n.innerStride(k)}
}

// norm lowers a norm, of (x, w, b), or its gradient by x, of (x, dy, w). All but x and dy
// may be missing.
func norm[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	x, second := s.In[0], s.In[0]
	cut := len(x.Shape) - int(s.Ints[0])
	n := x.Shape[cut:].Elems()
	if s.Op == tensor.OpLayerNormGradX || s.Op == tensor.OpRMSNormGradX {
		second = s.In[1]
	}
	f := normRows(s, k, n)
	walk := newNest(x.Shape[:cut], s.Out.Strides[:cut], x.Strides[:cut], second.Strides[:cut])
	walk.longestInner()
	return func(r *run) error {
		out, in, dy := buf[T](r, &s.Out), buf[T](r, &x), buf[T](r, &second)
		walk.runs(r, n, func(count, o, i, j, _ int) {
			f(r, rowsOf(&walk, 0, out, o), rowsOf(&walk, 1, in, i), rowsOf(&walk, 2, dy, j), count)
		})
		return nil
	}
}

// normRows returns the operation of norm on count rows of n elements: of a, or of a and
// its gradient b.
func normRows[T float](s *compile.Step, k *kernel.Table[T], n int) func(r *run, dst, a, b kernel.Rows[T], count int) {
	tensors := len(s.In) - 1
	weights := s.In[1:tensors]
	if s.Op == tensor.OpLayerNormGradX || s.Op == tensor.OpRMSNormGradX {
		weights = s.In[2:tensors]
	}
	return func(r *run, dst, a, b kernel.Rows[T], count int) {
		eps := T(r.scalars[s.In[tensors].Scalar])
		var w [2][]T
		for i := range weights {
			w[i] = buf[T](r, &weights[i])[:n]
		}
		switch s.Op {
		case tensor.OpLayerNorm:
			k.LayerNormRows(dst, a, w[0], w[1], count, n, eps)
		case tensor.OpRMSNorm:
			k.RMSNormRows(dst, a, w[0], count, n, eps)
		case tensor.OpLayerNormGradX:
			k.LayerNormGradRows(dst, a, b, nil, nil, w[0], count, n, eps)
		default:
			k.RMSNormGradRows(dst, a, b, nil, w[0], count, n, eps)
		}
	}
}

func rope[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	last := len(s.Out.Shape) - 1
	h := s.Out.Shape[last] / 2
	turn := make([]int, last) // the tables go with the dim before the last
	turn[last-1] = h
	walk := newNest(s.Out.Shape[:last], s.Out.Strides[:last], s.In[0].Strides[:last], turn)
	walk.longestInner()
	sign := T(1)
	if s.Ints[0] != 0 {
		sign = -1
	}
	return func(r *run) error {
		x, y := buf[T](r, &s.In[0]), buf[T](r, &s.Out)
		cos, sin := buf[T](r, &s.In[1]), buf[T](r, &s.In[2])
		walk.runs(r, 2*h, func(count, o, i, t, _ int) {
			k.RoPERows(rowsOf(&walk, 0, y, o), rowsOf(&walk, 1, x, i), rowsOf(&walk, 2, cos, t), rowsOf(&walk, 2, sin, t), count, h, sign)
		})
		return nil
	}
}
