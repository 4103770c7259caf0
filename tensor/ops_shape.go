package tensor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// dimInts is memory for one attribute for each dim. Callers keep it on their stack.
type dimInts [MaxRank]int64

// of returns x as attributes, in the memory of r if that suffices.
func (r *dimInts) of(x []int) []int64 {
	out := r[:0]
	for _, n := range x {
		out = append(out, int64(n))
	}
	return out
}

// Reshape returns the same elements with another shape. One dim may be -1: its size
// follows from the others.
func (t *Tensor) Reshape(shape ...int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	var room dimInts
	ints := room.of(shape)
	free, known := -1, 1
	for i, n := range shape {
		if n != -1 {
			known *= n
			continue
		}
		if free >= 0 {
			return t.wrong(OpReshape, fmt.Errorf("%w: two dims are -1 in %v", ErrShape, slices.Clone(shape)))
		}
		free = i
	}
	if free >= 0 {
		if known <= 0 || t.Elems()%known != 0 {
			return t.wrong(OpReshape, fmt.Errorf("%w: %d elements don't fill %v", ErrShape, t.Elems(), slices.Clone(shape)))
		}
		ints[free] = int64(t.Elems() / known)
	}
	return t.v.s.Apply(OpReshape, ints, T(t))
}

// Flatten returns t with one dim.
func (t *Tensor) Flatten() *Tensor { return t.Reshape(-1) }

// axes appends dims, counted from the end if negative, to ints. If one is out of range or
// t stands for an error, it returns the tensor to return instead of the operation's
// result.
func (t *Tensor) axes(op Op, ints []int64, dims ...int) ([]int64, *Tensor) {
	switch {
	case t == nil:
		return nil, poisoned(nil, opError(op, []Arg{T(nil)}, ErrNil))
	case t.v.failed() != nil:
		return nil, t.poison()
	}
	for _, d := range dims {
		a, err := axis(d, len(t.v.shape))
		if err != nil {
			return nil, t.wrong(op, err)
		}
		ints = append(ints, int64(a))
	}
	return ints, nil
}

// Permute reorders the dims: dim i of the result is dim dims[i] of t.
func (t *Tensor) Permute(dims ...int) *Tensor {
	var room dimInts
	ints, wrong := t.axes(OpPermute, room[:0], dims...)
	if wrong != nil {
		return wrong
	}
	return t.v.s.Apply(OpPermute, ints, T(t))
}

// Transpose exchanges two dims.
func (t *Tensor) Transpose(a, b int) *Tensor {
	var two [2]int64
	x, wrong := t.axes(OpPermute, two[:0], a, b)
	if wrong != nil {
		return wrong
	}
	var room dimInts
	ints := room[:len(t.v.shape)]
	for i := range ints {
		ints[i] = int64(i)
	}
	ints[x[0]], ints[x[1]] = x[1], x[0]
	return t.v.s.Apply(OpPermute, ints, T(t))
}

// T exchanges the last two dims.
func (t *Tensor) T() *Tensor { return t.Transpose(-2, -1) }

// Squeeze removes dims of size 1: those given, or all.
func (t *Tensor) Squeeze(dims ...int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	var drop uint
	for _, d := range dims {
		a, err := axis(d, len(t.v.shape))
		if err == nil && t.v.shape[a] != 1 {
			err = fmt.Errorf("%w: dim %d has size %d, only 1 can be squeezed", ErrShape, d, t.v.shape[a])
		}
		if err != nil {
			return t.wrongName("squeeze", err)
		}
		drop |= 1 << a
	}
	out := make([]int, 0, MaxRank)
	for i, n := range t.v.shape {
		if len(dims) == 0 && n == 1 || drop&(1<<i) != 0 {
			continue
		}
		out = append(out, n)
	}
	var room dimInts
	return t.v.s.Apply(OpReshape, room.of(out), T(t))
}

// Unsqueeze inserts a dim of size 1 before dim, counted in the result.
func (t *Tensor) Unsqueeze(dim int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	a, err := axis(dim, len(t.v.shape)+1)
	if err != nil {
		return t.wrongName("unsqueeze", err)
	}
	out := make([]int, 0, MaxRank+1)
	out = append(append(append(out, t.v.shape[:a]...), 1), t.v.shape[a:]...)
	var room dimInts
	return t.v.s.Apply(OpReshape, room.of(out), T(t))
}

// Expand repeats dims of size 1 up to shape, without a copy; -1 keeps a dim as it is.
func (t *Tensor) Expand(shape ...int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	var room dimInts
	ints := room.of(shape)
	for i, n := range shape {
		if k := i - (len(shape) - len(t.v.shape)); n == -1 && k >= 0 {
			ints[i] = int64(t.v.shape[k])
		}
	}
	return t.v.s.Apply(OpExpand, ints, T(t))
}

// Barrier returns t. Results computed from it are computed after the barrier: an engine
// does not reuse an equal result of before, and moves no computation across it. So a
// program can choose to compute a value twice instead of keeping it, as
// autograd.Recompute does.
func (t *Tensor) Barrier() *Tensor { return t.v.s.Apply(OpBarrier, nil, T(t)) }

// Range selects elements of one dim, as Python's start:stop:step does. Negative positions
// count from the end; All leaves a bound open.
type Range struct{ Start, Stop, Step int }

// All leaves a bound of a Range open.
const All = math.MinInt

// At selects one element of a dim and removes the dim.
func At(i int) Range { return Range{i, 0, 0} }

// To returns start:stop.
func To(start, stop int) Range { return Range{start, stop, 1} }

// By returns start:stop:step. A step of 0 is an error.
func By(start, stop, step int) Range {
	step = cmp.Or(step, noStep)
	return Range{start, stop, step}
}

// Every keeps a dim as it is.
func Every() Range { return Range{All, All, 1} }

// NewAxis inserts a dim of 1.
func NewAxis() Range { return Range{All, All, newAxis} }

// Ellipsis stands for as many Every as dims have no other range.
func Ellipsis() Range { return Range{All, All, ellipsis} }

const (
	newAxis  = math.MinInt
	ellipsis = math.MinInt + 1
	noStep   = math.MinInt + 2
)

// resolve turns a Range over n elements into start, step and count.
func (r Range) resolve(n int) (start, step, count int) {
	step = r.Step
	// A position is in [0, n] for a positive step, in [-1, n-1] for a negative one.
	lo, hi := 0, n
	if step < 0 {
		lo, hi = -1, n-1
	}
	pos := func(p, open int) int {
		if p == All {
			return open
		}
		if p < 0 {
			p += n
		}
		return min(max(p, lo), hi)
	}
	if step > 0 {
		start = pos(r.Start, 0)
		count = (pos(r.Stop, n) - start + step - 1) / step
	} else {
		start = pos(r.Start, n-1)
		count = (start - pos(r.Stop, -1) - step - 1) / -step
	}
	return start, step, max(count, 0)
}

// Slice selects a part of every dim, as x[1:3, ..., ::2] does in NumPy. Dims without a
// range stay whole. It makes no copy.
func (t *Tensor) Slice(ranges ...Range) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	rank, named, dots := len(t.v.shape), 0, 0
	for _, r := range ranges {
		switch r.Step {
		case newAxis:
		case ellipsis:
			dots++
		default:
			named++
		}
	}
	if named > rank || dots > 1 {
		return t.wrong(OpSlice, fmt.Errorf("%w: %d ranges and %d ellipses for %d dims", ErrShape, named, dots, rank))
	}
	ints := make([]int64, 0, 3*MaxRank)
	out := make([]int, 0, MaxRank)
	view, dim := false, 0 // view: dims are removed or inserted, so a reshape follows
	whole := func(n int) {
		for ; n > 0; n-- {
			ints = append(ints, 0, 1, int64(t.v.shape[dim]))
			out = append(out, t.v.shape[dim])
			dim++
		}
	}
	for _, r := range ranges {
		switch r.Step {
		case newAxis:
			out, view = append(out, 1), true
		case ellipsis:
			whole(rank - named)
		case noStep:
			return t.wrong(OpSlice, fmt.Errorf("%w: dim %d by step 0; expected another, or At", ErrShape, dim))
		case 0: // At
			n, i := t.v.shape[dim], r.Start
			if i < 0 {
				i += n
			}
			if i < 0 || i >= n {
				return t.wrong(OpSlice, fmt.Errorf("%w: %d of dim %d, which has size %d", ErrIndex, r.Start, dim, n))
			}
			ints = append(ints, int64(i), 1, 1)
			view = true
			dim++
		default:
			start, step, n := r.resolve(t.v.shape[dim])
			ints = append(ints, int64(start), int64(step), int64(n))
			out = append(out, n)
			dim++
		}
	}
	whole(rank - dim)
	y := t.v.s.Apply(OpSlice, ints, T(t))
	if view {
		var room dimInts
		y = y.v.s.Apply(OpReshape, room.of(out), T(y))
	}
	return y
}

// Narrow returns n elements of one dim from start.
func (t *Tensor) Narrow(dim, start, n int) *Tensor {
	var one [1]int64
	a, wrong := t.axes(OpSlice, one[:0], dim)
	if wrong != nil {
		return wrong
	}
	ints := make([]int64, 0, 3*MaxRank)
	for _, d := range t.v.shape {
		ints = append(ints, 0, 1, int64(d))
	}
	ints[3*a[0]], ints[3*a[0]+2] = int64(start), int64(n)
	return t.v.s.Apply(OpSlice, ints, T(t))
}

// Split divides dim into pieces of the given sizes, which must add up to it.
func (t *Tensor) Split(dim int, sizes ...int) []*Tensor {
	out := make([]*Tensor, len(sizes))
	at := 0
	for i, n := range sizes {
		out[i] = t.Narrow(dim, at, n)
		at += n
	}
	if t.v.failed() == nil && at != t.Dim(dim) {
		e := t.wrongName("split", fmt.Errorf("%w: sizes %v add up to %d, dim %d has %d", ErrShape, sizes, at, dim, t.Dim(dim)))
		for i := range out {
			out[i] = e
		}
	}
	return out
}

// Chunk divides dim into at most n pieces, equal except the last.
func (t *Tensor) Chunk(dim, n int) []*Tensor {
	size := t.Dim(dim)
	if t.v.failed() == nil && n < 1 {
		return []*Tensor{t.wrongName("chunk", fmt.Errorf("%w: %d pieces, expected 1 or more", ErrShape, n))}
	}
	if t.v.failed() != nil || size == 0 {
		return []*Tensor{t}
	}
	step := (size + n - 1) / n
	var sizes []int
	for at := 0; at < size; at += step {
		sizes = append(sizes, min(step, size-at))
	}
	return t.Split(dim, sizes...)
}

// Flip reverses the order of the elements along dims.
func (t *Tensor) Flip(dims ...int) *Tensor {
	axes, wrong := t.axes(OpSlice, nil, dims...)
	if wrong != nil {
		return wrong
	}
	r := make([]Range, len(t.v.shape))
	for i := range r {
		r[i] = Every()
	}
	for _, a := range axes {
		r[a] = Range{All, All, -1}
	}
	return t.Slice(r...)
}

// Concat joins one or more tensors along dim.
func Concat(dim int, ts ...*Tensor) *Tensor {
	if len(ts) == 0 {
		return poisoned(nil, opError(OpConcat, nil, fmt.Errorf("%w: no tensors; expected one or more", ErrShape)))
	}
	ints, wrong := ts[0].axes(OpConcat, nil, dim)
	if wrong != nil {
		return wrong
	}
	args := make([]Arg, len(ts))
	for i, x := range ts {
		args[i] = T(x)
	}
	return ts[0].v.s.Apply(OpConcat, ints, args...)
}

// Stack joins tensors of one shape along a new dim.
func Stack(dim int, ts ...*Tensor) *Tensor {
	out := make([]*Tensor, len(ts))
	for i, x := range ts {
		out[i] = T(x).t.Unsqueeze(dim)
	}
	return Concat(dim, out...)
}

// Pad pads t with x, a pair of counts before and after for each dim. If there are fewer
// pairs than dims they are for the last dims.
func (t *Tensor) Pad(x float64, pairs ...[2]int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	skip := len(t.v.shape) - len(pairs)
	if skip < 0 {
		return t.wrong(OpPad, fmt.Errorf("%w: %d pairs for %d dims", ErrShape, len(pairs), len(t.v.shape)))
	}
	ints := make([]int64, 2*len(t.v.shape))
	for i, p := range pairs {
		ints[2*(skip+i)], ints[2*(skip+i)+1] = int64(p[0]), int64(p[1])
	}
	return t.v.s.Apply(OpPad, ints, T(t), S(x))
}

// Tril zeroes the elements above the k-th diagonal of the last two dims.
func (t *Tensor) Tril(k int) *Tensor { return t.v.s.Apply(OpTril, []int64{int64(k)}, T(t)) }

// Triu zeroes the elements below the k-th diagonal of the last two dims.
func (t *Tensor) Triu(k int) *Tensor { return t.v.s.Apply(OpTriu, []int64{int64(k)}, T(t)) }

// onDim applies an operation to t and more, whose first attribute is a dim of t.
func (t *Tensor) onDim(op Op, dim int, more ...Arg) *Tensor {
	ints, wrong := t.axes(op, make([]int64, 0, 1), dim)
	if wrong != nil {
		return wrong
	}
	return t.v.s.Apply(op, ints, append([]Arg{T(t)}, more...)...)
}

// IndexSelect returns the elements of dim at idx, from the end where it is negative. The
// dims of idx, of any shape, take the place of dim.
func (t *Tensor) IndexSelect(dim int, idx *Tensor) *Tensor {
	return t.onDim(OpIndexSelect, dim, T(idx))
}

// IndexAdd returns t with src added at idx along dim, from the end where it is negative;
// equal indices add up, in order.
func (t *Tensor) IndexAdd(dim int, idx, src *Tensor) *Tensor {
	return t.onDim(OpIndexAdd, dim, T(idx), T(src))
}

// Gather returns, at each position of idx, the element of t whose index in dim is the
// value of idx there, as torch.gather does.
func (t *Tensor) Gather(dim int, idx *Tensor) *Tensor { return t.onDim(OpGather, dim, T(idx)) }

// ScatterAdd returns t with src added at the positions that Gather would read.
func (t *Tensor) ScatterAdd(dim int, idx, src *Tensor) *Tensor {
	return t.onDim(OpScatterAdd, dim, T(idx), T(src))
}

// Embedding returns the rows of table at idx: [.., d] for idx [..].
func Embedding(table, idx *Tensor) *Tensor { return table.IndexSelect(0, idx) }

// OneHot returns a tensor with a new last dim of size classes: 1 at the index in t (i32
// or i64), 0 elsewhere.
func (t *Tensor) OneHot(d DType, classes int) *Tensor {
	return t.v.s.Apply(OpOneHot, []int64{int64(d), int64(classes)}, T(t))
}
