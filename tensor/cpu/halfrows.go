package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// halfOperand is an operand of a step of f32 that may be of 16 bits.
type halfOperand struct {
	o      compile.Operand
	widen  func(dst []float32, x []uint16) // nil: of f32
	narrow func(dst []uint16, x []float32)
}

func halfOperandOf(k *kernel.Table[float32], o compile.Operand) halfOperand {
	switch o.DType {
	case tensor.F16:
		return halfOperand{o, k.WidenF16, k.NarrowF16}
	case tensor.BF16:
		return halfOperand{o, k.WidenBF16, k.NarrowBF16}
	}
	return halfOperand{o: o}
}

// read returns count rows of n elements that lie stride apart from element i on: in place
// or widened in scratch row q.
func (h *halfOperand) read(r *run, q, i, stride, count, n int) kernel.Rows[float32] {
	if h.widen == nil {
		return kernel.Rows[float32]{Data: buf[float32](r, &h.o)[i:], Stride: stride}
	}
	x, wide := buf[uint16](r, &h.o)[i:], scratchRow[float32](r, q, count*n)
	for j := range count {
		h.widen(wide[j*n:][:n], x[j*stride:][:n])
	}
	return kernel.Rows[float32]{Data: wide, Stride: n}
}

// room returns where rows of the result are computed: in place or in scratch row q.
func (h *halfOperand) room(r *run, q, i, stride, count, n int) kernel.Rows[float32] {
	if h.narrow == nil {
		return kernel.Rows[float32]{Data: buf[float32](r, &h.o)[i:], Stride: stride}
	}
	return kernel.Rows[float32]{Data: scratchRow[float32](r, q, count*n), Stride: n}
}

// write stores the rows of room, if they are not in place.
func (h *halfOperand) write(r *run, rows kernel.Rows[float32], i, stride, count, n int) {
	if h.narrow == nil {
		return
	}
	to := buf[uint16](r, &h.o)[i:]
	for j := range count {
		h.narrow(to[j*stride:][:n], rows.Data[j*n:][:n])
	}
}

// halfRows lowers an operation on rows of f32, some operands of which, or the result, are
// of 16 bits: a few rows are widened at a time, and their results narrowed.
func (lw *lowerer) halfRows(s *compile.Step) func(r *run) error {
	last := len(s.Out.Shape) - 1
	cut, second, two := last, s.In[0], true // whether there is a second operand
	switch s.Op {
	case tensor.OpSoftmax, tensor.OpLogSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad:
		if int(s.Ints[0]) != last {
			return lw.halfColumns(s)
		}
		second, two = s.In[len(s.In)-1], len(s.In) > 1
	case tensor.OpLayerNormGradX, tensor.OpRMSNormGradX:
		cut, second = last+1-int(s.Ints[0]), s.In[1]
	default:
		cut, two = last+1-int(s.Ints[0]), false
	}
	n := s.Out.Shape[cut:].Elems()
	f := rowOperation(s, lw.table, n)
	walk := newNest(s.Out.Shape[:cut], s.Out.Strides[:cut], s.In[0].Strides[:cut], second.Strides[:cut])
	walk.longestInner()
	out, x, y := halfOperandOf(lw.table, s.Out), halfOperandOf(lw.table, s.In[0]), halfOperandOf(lw.table, second)
	most := max(foldBlock/n, 1)
	return func(r *run) error {
		so, sx, sy := walk.innerStride(0), walk.innerStride(1), walk.innerStride(2)
		walk.runs(r, n, func(count, o, i, j, _ int) {
			for m := 0; count > 0 && !r.stopped(); count -= m {
				m = min(count, most)
				a := x.read(r, 0, i, sx, m, n)
				b := a
				if two {
					b = y.read(r, 1, j, sy, m, n)
				}
				dst := out.room(r, 2, o, so, m, n)
				f(r, dst, a, b, m)
				out.write(r, dst, o, so, m, n)
				o, i, j = o+m*so, i+m*sx, j+m*sy
			}
		})
		return nil
	}
}

// rowOperation returns the operation of s on rows of n elements of f32.
func rowOperation(s *compile.Step, k *kernel.Table[float32], n int) func(r *run, dst, a, b kernel.Rows[float32], count int) {
	each := func(f func(dst, a, b []float32)) func(r *run, dst, a, b kernel.Rows[float32], count int) {
		return func(_ *run, dst, a, b kernel.Rows[float32], count int) {
			for i := range count {
				f(dst.Data[i*dst.Stride:][:n], a.Data[i*a.Stride:][:n], b.Data[i*b.Stride:][:n])
			}
		}
	}
	switch s.Op {
	case tensor.OpSoftmax:
		return func(_ *run, dst, a, _ kernel.Rows[float32], count int) { k.SoftmaxRows(dst, a, count, n, n, 0, 1) }
	case tensor.OpSoftmaxGrad:
		return func(_ *run, dst, a, b kernel.Rows[float32], count int) {
			k.SoftmaxGradRows(dst, a, b, count, n, n, 0, 1)
		}
	case tensor.OpLogSoftmax:
		return func(r *run, dst, a, _ kernel.Rows[float32], count int) {
			k.LogSoftmaxRows(dst, a, scratchRow[float32](r, 3, kernel.LogSoftmaxRoom), count, n)
		}
	case tensor.OpLogSoftmaxGrad:
		return each(func(dst, a, b []float32) { k.LogSoftmaxGrad(dst, a, b) })
	}
	return normRows(s, k, n)
}

// halfColumns is halfRows of softmax and related operations along a dim that is not the
// last, by tiles of columns.
func (lw *lowerer) halfColumns(s *compile.Step) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	width := min(max(softmaxTile/n, 64)&^15, columnTile)
	tiles, adds := (inner+width-1)/width, lw.table.Adds()
	second := s.In[len(s.In)-1]
	out, x, y := halfOperandOf(lw.table, s.Out), halfOperandOf(lw.table, s.In[0]), halfOperandOf(lw.table, second)
	return func(r *run) error {
		for lo, hi := r.share(outer*tiles, 1); lo < hi && !r.stopped(); lo++ {
			first := lo % tiles * width
			at, m := lo/tiles*n*inner+first, min(width, inner-first)
			a := x.read(r, 2, at, inner, n, m)
			b := a
			if len(s.In) > 1 {
				b = y.read(r, 3, at, inner, n, m)
			}
			dst := out.room(r, 2, at, inner, n, m) // where a is, if both are of 16 bits
			softmaxTileOf(r, lw.table, adds, s.Op, n, m, dst, a, b)
			out.write(r, dst, at, inner, n, m)
		}
		return nil
	}
}
