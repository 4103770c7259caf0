package cpu

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// rowKernels are the operations on one contiguous row: for f32 from the kernel table, for
// f64 plain Go.
type rowKernels[T float] struct {
	softmax        func(dst, x []T, scale T)
	softmaxGrad    func(dst, y, dy []T, scale T)
	logSoftmax     func(dst, x []T)
	logSoftmaxGrad func(dst, y, dy []T)
	layerNorm      func(dst, x, w, b []T, eps T) (mean, rstd T)
	layerNormGrad  func(dx, dw, db, x, w, dy []T, mean, rstd T)
	rmsNorm        func(dst, x, w []T, eps T) T
	rmsNormGrad    func(dx, dw, x, w, dy []T, rstd T)
	rope           func(dst, x, cos, sin []T, sign T)
	crossEntropy   func(dx, x []T, target int, scale T) T
	sum            func(x []T) T
	dot            func(a, b []T) T
	sumSqDev       func(x []T, mean T) T
	mul            product[T]
}

func (lw *lowerer) rows() *rowKernels[float32] {
	k := lw.table
	return &rowKernels[float32]{
		softmax: k.Softmax, softmaxGrad: k.SoftmaxGrad, logSoftmax: k.LogSoftmax, logSoftmaxGrad: k.LogSoftmaxGrad,
		layerNorm: k.LayerNorm, layerNormGrad: k.LayerNormGrad, rmsNorm: k.RMSNorm, rmsNormGrad: k.RMSNormGrad,
		rope: k.RoPE, crossEntropy: k.CrossEntropy, sum: k.Sum, dot: k.Dot, sumSqDev: k.SumSqDev, mul: gemm32,
	}
}

// rowwise lowers an operation on rows.
func rowwise[T float](s *compile.Step, k *rowKernels[T]) func(r *run) error {
	switch s.Op {
	case tensor.OpSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmax, tensor.OpLogSoftmaxGrad:
		return alongDim(s, k)
	case tensor.OpCausalSoftmax:
		return causal(s, k)
	case tensor.OpLayerNorm, tensor.OpRMSNorm, tensor.OpLayerNormGradX, tensor.OpRMSNormGradX, tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
		return norm(s, k)
	case tensor.OpRope:
		return rope(s, k)
	case tensor.OpCrossEntropy, tensor.OpCrossEntropyGrad:
		return crossEntropy(s, k)
	case tensor.OpCumsum:
		return func(r *run) error {
			running(buf[T](r, &s.In[0]), buf[T](r, &s.Out), s)
			return nil
		}
	case tensor.OpProdGrad:
		return prodGrad[T](s)
	case tensor.OpConv2D, tensor.OpConv2DGradX, tensor.OpConv2DGradW:
		return convolution(s, k.mul)
	case tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad:
		return pooling[T](s)
	}
	panic(fmt.Sprintf("cpu: no kernel for %v", s.Op)) // the op table has no other
}

// scratchRow returns one of three rows of n elements.
func scratchRow[T any](r *run, i, n int) []T {
	words := (n*sizeOf[T]() + 7) / 8
	r.rows[i] = grow(r.rows[i], max(words, 1))
	return slice[T](bytesOf(r.rows[i]))[:n]
}

// alongDim lowers softmax and related operations. Rows along the last dim are read in
// place, others are copied out and back.
func alongDim[T float](s *compile.Step, k *rowKernels[T]) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	row := func(dst, a, b []T) {
		switch s.Op {
		case tensor.OpSoftmax:
			k.softmax(dst, a, 1)
		case tensor.OpSoftmaxGrad:
			k.softmaxGrad(dst, a, b, 1)
		case tensor.OpLogSoftmax:
			k.logSoftmax(dst, a)
		default:
			k.logSoftmaxGrad(dst, a, b)
		}
	}
	cut := int(s.Ints[0])
	walk := newNest(s.Out.Shape[:cut], s.Out.Strides[:cut], s.In[0].Strides[:cut], s.In[len(s.In)-1].Strides[:cut])
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
		for o := range outer {
			for i := range inner {
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

func causal[T float](s *compile.Step, k *rowKernels[T]) func(r *run) error {
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
				k.softmax(dst[:seen], src, scale)
			} else { // the kernel finds the largest x, which is then the smallest x*scale
				t := scratchRow[T](r, 0, seen)
				for j := range t {
					t[j] = src[j] * scale
				}
				k.softmax(dst[:seen], t, 1)
			}
			clear(dst[seen:])
		})
		return nil
	}
}

// norm lowers layer norm, RMS norm and their gradients, over rows of the last dims.
func norm[T float](s *compile.Step, k *rowKernels[T]) func(r *run) error {
	x := s.In[0]
	n := x.Shape[len(x.Shape)-int(s.Ints[0]):].Elems()
	rows := 0
	if n > 0 {
		rows = x.Shape.Elems() / n
	}
	layer := s.Op == tensor.OpLayerNorm || s.Op == tensor.OpLayerNormGradX || s.Op == tensor.OpLayerNormGradW
	tensors := len(s.In) - 1
	eps := s.In[tensors].Scalar
	// stats returns statistics of a row for the gradients, which get only x
	stats := func(row []T, e T) (mean, rstd T) {
		if layer {
			mean = k.sum(row) / T(n)
			return mean, T(1 / math.Sqrt(float64(k.sumSqDev(row, mean))/float64(n)+float64(e)))
		}
		return 0, T(1 / math.Sqrt(float64(k.dot(row, row))/float64(n)+float64(e)))
	}
	weights := s.Op == tensor.OpLayerNormGradW || s.Op == tensor.OpRMSNormGradW
	cut := len(x.Shape) - int(s.Ints[0])
	to, dyAt := x.Strides[:cut], x.Strides[:cut] // where there is no such row
	if !weights {
		to = s.Out.Strides[:cut]
	}
	if s.Op != tensor.OpLayerNorm && s.Op != tensor.OpRMSNorm {
		dyAt = s.In[1].Strides[:cut]
	}
	walk := newNest(x.Shape[:cut], to, x.Strides[:cut], dyAt)
	return func(r *run) error {
		e := T(r.scalars[eps])
		in, out := buf[T](r, &x), buf[T](r, &s.Out)
		var second, third []T
		if tensors > 1 {
			second = buf[T](r, &s.In[1])
		}
		if tensors > 2 {
			third = buf[T](r, &s.In[2])
		}
		var dx []T
		if weights {
			clear(out[:n])
			dx = scratchRow[T](r, 0, n)
		}
		if rows == 0 {
			return nil
		}
		walk.rows(r, func(_, o, a, b, _ int) {
			row := in[a : a+n]
			switch s.Op {
			case tensor.OpLayerNorm:
				k.layerNorm(out[o:o+n], row, upTo(second, n), upTo(third, n), e)
			case tensor.OpRMSNorm:
				k.rmsNorm(out[o:o+n], row, upTo(second, n), e)
			default:
				mean, rstd := stats(row, e)
				dy := second[b : b+n]
				w, dw, dst := upTo(third, n), []T(nil), dx
				if weights {
					dw = out[:n]
				} else {
					dst = out[o : o+n]
				}
				if layer {
					k.layerNormGrad(dst, dw, nil, row, w, dy, mean, rstd)
				} else {
					k.rmsNormGrad(dst, dw, row, w, dy, rstd)
				}
			}
		})
		return nil
	}
}

// upTo returns the first n of x, nil if x is nil.
func upTo[T any](x []T, n int) []T {
	if x == nil {
		return nil
	}
	return x[:n]
}

func rope[T float](s *compile.Step, k *rowKernels[T]) func(r *run) error {
	sh := s.Out.Shape
	last := len(sh) - 1
	d, h := sh[last], sh[last]/2
	turn := make([]int, last) // the tables go with the dim before the last
	turn[last-1] = h
	walk := newNest(sh[:last], s.Out.Strides[:last], s.In[0].Strides[:last], turn)
	sign := T(1)
	if s.Ints[0] != 0 {
		sign = -1
	}
	return func(r *run) error {
		x, y := buf[T](r, &s.In[0]), buf[T](r, &s.Out)
		cos, sin := buf[T](r, &s.In[1]), buf[T](r, &s.In[2])
		walk.rows(r, func(_, o, i, t, _ int) { k.rope(y[o:o+d], x[i:i+d], cos[t:t+h], sin[t:t+h], sign) })
		return nil
	}
}

// crossEntropy lowers the mean loss over rows, or its gradient. A target that is neither
// a class nor ignored is an error.
func crossEntropy[T float](s *compile.Step, k *rowKernels[T]) func(r *run) error {
	rows, classes, gap := s.In[0].Shape[0], s.In[0].Shape[1], s.In[0].Strides[0]
	ignore := s.Ints[0]
	return func(r *run) error {
		x := buf[T](r, &s.In[0])
		id, wide := ids(r, &s.In[1])
		out := buf[T](r, &s.Out)
		target := func(i int) (int, bool, error) {
			v := int64(0)
			if wide {
				v = slice[int64](id)[i]
			} else {
				v = int64(slice[int32](id)[i])
			}
			if v == ignore {
				return 0, false, nil
			}
			t, err := index(id, wide, i, classes)
			return t, true, err
		}
		counted := 0
		for i := range rows {
			_, ok, err := target(i)
			if err != nil {
				return err
			}
			if ok {
				counted++
			}
		}
		if s.Op == tensor.OpCrossEntropy {
			sum := 0.0
			for i := range rows {
				if t, ok, _ := target(i); ok {
					sum += float64(k.crossEntropy(nil, x[i*gap:i*gap+classes], t, 1))
				}
			}
			out[0] = T(sum / float64(counted))
			return nil
		}
		scale := buf[T](r, &s.In[2])[0] / T(counted)
		for i := range rows {
			row := out[i*classes : (i+1)*classes]
			if t, ok, _ := target(i); ok {
				k.crossEntropy(row, x[i*gap:i*gap+classes], t, scale)
			} else {
				clear(row)
			}
		}
		return nil
	}
}

// prodGrad is dy times the product of all other elements: exact where one of them is 0.
func prodGrad[T float](s *compile.Step) func(r *run) error {
	x := s.In[0]
	var mask uint
	for _, d := range s.Ints {
		mask |= 1 << d
	}
	var ks, fs tensor.Shape
	var kst, fst []int
	for i, n := range x.Shape {
		if len(s.Ints) == 0 || mask&(1<<i) != 0 {
			fs, fst = append(fs, n), append(fst, x.Strides[i])
		} else {
			ks, kst = append(ks, n), append(kst, x.Strides[i])
		}
	}
	kept, folded := newNest(ks, kst), newNest(fs, fst)
	return func(r *run) error {
		if x.Shape.Elems() == 0 {
			return nil
		}
		in, dy, out := buf[T](r, &s.In[0]), buf[T](r, &s.In[1]), buf[T](r, &s.Out)
		i := 0
		kept.each(0, func(off, n, stride int) {
			for j := range n {
				base := off + j*stride
				zeros, prod := 0, 1.0
				folded.each(base, func(o, m, st int) {
					for l := range m {
						if v := in[o+l*st]; v == 0 {
							zeros++
						} else {
							prod *= float64(v)
						}
					}
				})
				folded.each(base, func(o, m, st int) {
					for l := range m {
						v := in[o+l*st]
						g := 0.0
						switch {
						case zeros == 0:
							g = prod / float64(v)
						case zeros == 1 && v == 0:
							g = prod
						}
						out[o+l*st] = T(g * float64(dy[i]))
					}
				})
				i++
			}
		})
		return nil
	}
}
