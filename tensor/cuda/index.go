package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// failure is the argument of kernels that check indices: where on the device they write
// the first place that fails. All its bits are set where nothing failed.
type failure struct{}

// failureBytes is the memory of a failure.
const failureBytes = 4

// indices adds a check of idx, whose elements are to be from least to n-1. It returns
// them as i32: 0 for one that is not, -1 for one that equals ignored, which may be nil.
// least is 0, or -n for negative indices that count from the end.
func (k *kernel) indices(idx compile.Operand, least, n int, ignored *int64) compile.Operand {
	places := idx.Shape.Elems()
	if n > math.MaxInt32 || n == 0 && places > 0 {
		k.host = true // where there are no rows, every index fails
		return idx
	}
	if places == 0 {
		return k.temp(tensor.I32, tensor.Shape{0})
	}
	k.least, k.bound = least, n
	wide, out := k.dense(idx, tensor.I64), k.temp(tensor.I32, tensor.Shape{places})
	wraps, ignores, value := uint32(0), uint32(0), uint64(0)
	if least < 0 {
		wraps = 1
	}
	if ignored != nil {
		ignores, value = 1, uint64(*ignored)
	}
	k.call("index", "index_check", places, (places+255)/256, 1, 1, wide, out, uint32(places), uint32(n), wraps, ignores, value, failure{})
	k.call("index", "index_failed", 1, 1, 1, 1, wide, failure{}, recordOf{}, step{})
	return out
}

// firstFailure waits for the kernels and returns the error of the first step that had an
// index out of range.
func (r *running) firstFailure() error {
	if len(r.checked) == 0 {
		return nil
	}
	if err := r.stream.Sync(); err != nil {
		return err
	}
	r.queued = 0
	return r.c.failureIn(r.record)
}

// failureAt returns where the checks of the step that is being launched write.
func (r *running) failureAt() driver.DevicePtr {
	return r.failures + driver.DevicePtr(failureBytes*(len(r.checked)-1))
}

// indexSelect adds copies of rows. A row is moved in words, or in bytes where it does not
// consist of words.
func (k *kernel) indexSelect(s *compile.Step) {
	x, dim := s.In[0], int(s.Ints[0])
	outer, n, inner := x.Shape[:dim].Elems(), x.Shape[dim], x.Shape[dim+1:].Elems()
	name, units := "gather_b32", inner*x.DType.Size()/4
	if inner*x.DType.Size()%4 != 0 || x.Off*x.DType.Size()%4 != 0 {
		name, units = "gather_b8", inner*x.DType.Size()
	}
	at := k.indices(s.In[1], -n, n, nil)
	places := s.In[1].Shape.Elems()
	k.call("move", name, outer*places*units, places, outer, 1, k.dense(x, x.DType), at, s.Out, uint32(n), uint32(units), failure{})
}

// indexAdd adds a copy of the operand, and what is added to it in the order of the index.
func (k *kernel) indexAdd(s *compile.Step) {
	x, idx, from, dim := s.In[0], s.In[1], s.In[2], int(s.Ints[0])
	outer, n, inner := x.Shape[:dim].Elems(), x.Shape[dim], x.Shape[dim+1:].Elems()
	places, d := idx.Shape.Elems(), s.Out.DType
	if d.IsStorage() {
		k.host = true
		return
	}
	if x.Buf != s.Out.Buf {
		k.copy(s.Out, x)
	}
	at := k.indices(idx, -n, n, nil)
	next, first := k.temp(tensor.I32, tensor.Shape{places}), k.temp(tensor.I32, tensor.Shape{places})
	k.call("index", "index_chain", places*(places/256+1), (places+255)/256, 1, 1, at, next, first, uint32(n), uint32(places), failure{})
	k.call("index", "index_add_"+d.String(), outer*places*inner, places, outer, 1, k.dense(from, d), at, next, first, s.Out,
		uint32(n), uint32(places), uint32(inner))
}

// oneHot adds a comparison of each index with all classes.
func (k *kernel) oneHot(s *compile.Step) {
	classes, places := int(s.Ints[1]), s.In[0].Shape.Elems()
	at, out := k.indices(s.In[0], 0, classes, nil), s.Out
	at.Shape, at.Strides = tensor.Shape{places, 1}, []int{1, 1}
	out.Shape, out.Strides = tensor.Shape{places, classes}, []int{classes, 1}
	k.tiles(elementwise(tensor.OpOneHot, out, at))
}

// beside returns the part of x that indices of shape idx along dim can name: all of dim,
// and of another dim as much as idx has.
func beside(x compile.Operand, idx tensor.Shape, dim int) compile.Operand {
	shape := slices.Clone(idx)
	shape[dim] = x.Shape[dim]
	if !shape.Equal(x.Shape) {
		x.Shape, x.Dense = shape, false
	}
	return x
}

// gather adds copies of elements.
func (k *kernel) gather(s *compile.Step) {
	x, idx, dim := s.In[0], s.In[1], int(s.Ints[0])
	outer, places, inner := idx.Shape[:dim].Elems(), idx.Shape[dim], idx.Shape[dim+1:].Elems()
	n := x.Shape[dim]
	at := k.indices(idx, 0, n, nil)
	name := fmt.Sprint("gather_axis_b", 8*x.DType.Size())
	k.call("index", name, outer*places*inner, (places*inner+255)/256, outer, 1, k.dense(beside(x, idx.Shape, dim), x.DType), at, s.Out,
		uint32(n), uint32(places), uint32(inner), failure{})
}

// scatterAdd adds a copy of the operand, and what is added to it in the order of the
// index: in a copy of the part that the index can name, if that is not all.
func (k *kernel) scatterAdd(s *compile.Step) {
	x, idx, from, dim := s.In[0], s.In[1], s.In[2], int(s.Ints[0])
	d := s.Out.DType
	if d.IsStorage() {
		k.host = true
		return
	}
	outer, places, inner := idx.Shape[:dim].Elems(), idx.Shape[dim], idx.Shape[dim+1:].Elems()
	n := x.Shape[dim]
	if x.Buf != s.Out.Buf {
		k.copy(s.Out, x)
	}
	at := k.indices(idx, 0, n, nil)
	part := beside(s.Out, idx.Shape, dim)
	to := k.dense(part, d)
	k.call("index", "scatter_add_"+d.String(), places*max(outer*inner, alone), (inner+255)/256, outer, 1, k.dense(from, d), at, to,
		uint32(n), uint32(places), uint32(inner), failure{})
	if !part.Dense {
		k.copy(part, to)
	}
}

// crossEntropy adds a mean loss over rows, its gradient, or both. dy is nil for no
// gradient.
func (k *kernel) crossEntropy(s *compile.Step, grad, loss, dy *compile.Operand) {
	x := s.In[0]
	d := x.DType
	if k.host = !real(d); k.host {
		return
	}
	rows, classes := x.Shape[0], x.Shape[1]
	target := k.indices(s.In[1], 0, classes, &s.Ints[0])
	count := k.temp(d, tensor.Shape{})
	k.call("loss", "targets_count_"+d.String(), rows, 1, 1, 1, target, count, uint32(rows))
	null := uint64(0)
	args := []any{x, target, count, null, null, null, uint32(classes), uint64(x.Strides[0])}
	if grad != nil {
		args[3], args[4] = *dy, *grad
	}
	var losses compile.Operand
	if loss != nil {
		losses = k.temp(d, tensor.Shape{rows})
		args[5] = losses
	}
	k.call("loss", "cross_entropy_"+d.String(), 4*rows*classes, rows, 1, 1, args...)
	if loss == nil {
		return
	}
	sum := k.temp(d, tensor.Shape{})
	k.rows(fold{d, "sum"}, sum, losses, rows, 1)
	k.call("loss", "quotient_"+d.String(), 1, 1, 1, 1, sum, count, *loss)
}
