package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// indexSelect copies the slices that the indices name. Threads share the indices, or, if
// a slice is one element, the rows: all elements of a row are near each other then.
func (movesOf[T]) indexSelect(s *compile.Step) func(r *run) error {
	x, idx := &s.In[0], &s.In[1]
	outer, n, inner := split(x.Shape, int(s.Ints[0]))
	m := idx.Shape.Elems()
	return func(r *run) error {
		src, dst := buf[T](r, x), buf[T](r, &s.Out)
		id, wide := ids(r, idx)
		lo, hi, first, last := 0, m, 0, outer
		if inner == 1 && outer > 1 {
			first, last = r.share(outer, 1)
		} else {
			lo, hi = r.share(m, 1)
		}
		if first == last || lo == hi {
			return nil
		}
		places := grow(r, r.places, hi-lo)
		r.places = places
		for j := range places {
			k, err := indexFromEnd(id, wide, lo+j, n)
			if err != nil {
				return err
			}
			places[j] = int64(k)
		}
		for o := first; o < last && !r.stopped(); o++ {
			if inner == 1 {
				pick(dst[o*m+lo:o*m+hi], src[o*n:], places, 0, 1, n)
				continue
			}
			for j, k := range places {
				if j%stopRows == 0 && r.stopped() {
					return nil
				}
				at := (o*m + lo + j) * inner
				copy(dst[at:at+inner], src[(o*n+int(k))*inner:])
			}
		}
		return nil
	}
}

// stopRows is how many slices indexSelect copies between two looks at the stop flag.
const stopRows = 16

// pick is dst[j] = src[j*step+ids[j]*stride]. It ends at the first index that is not from
// 0 to n-1 and returns its place, len(ids) if there is none.
func pick[T any, I int32 | int64](dst, src []T, ids []I, step, stride, n int) int {
	dst = dst[:len(ids)]
	if step == 0 && stride == 1 {
		src = src[:n]
		for j, v := range ids {
			if uint64(v) >= uint64(len(src)) {
				return j
			}
			dst[j] = src[v]
		}
		return len(ids)
	}
	for j, v := range ids {
		if uint64(v) >= uint64(n) {
			return j
		}
		dst[j] = src[j*step+int(v)*stride]
	}
	return len(ids)
}

// addPicked is dst[j*step+ids[j]*stride] += src[j] in the order of j, otherwise as pick.
func addPicked[T number, I int32 | int64](dst, src []T, ids []I, step, stride, n int) int {
	src = src[:len(ids)]
	if step == 0 && stride == 1 {
		dst = dst[:n]
		for j, v := range ids {
			if uint64(v) >= uint64(len(dst)) {
				return j
			}
			dst[v] += src[j]
		}
		return len(ids)
	}
	for j, v := range ids {
		if uint64(v) >= uint64(n) {
			return j
		}
		dst[j*step+int(v)*stride] += src[j]
	}
	return len(ids)
}

// placed calls f for pieces of rows lo to hi of an index tensor, which lie along its
// first dim: count indices from place i on, of which the first names a place along dim
// from element base of x on, and each next one from step elements on. f returns how many
// of the indices were right.
func placed(r *run, x, idx *compile.Operand, dim, lo, hi int, f func(i, count, base, step int) int) error {
	n := idx.Shape[1:].Elems()
	if lo >= hi || n == 0 {
		return nil
	}
	st, last := x.Strides, len(idx.Shape)-1
	at := [tensor.MaxRank]int{lo}
	step, row := 0, idx.Shape[last] // along the last dim
	if last != dim {
		step = st[last]
	}
	if last == 0 {
		row = hi - lo
	}
	for i := lo * n; i < hi*n; i += row {
		base := 0
		for d := range idx.Shape {
			if d != dim {
				base += at[d] * st[d]
			}
		}
		for j, count := 0, 0; j < row; j += count {
			if r.stopped() {
				return nil
			}
			count = min(breath, row-j)
			if right := f(i+j, count, base+j*step, step); right < count {
				return badIndex(r, idx, i+j+right, x.Shape[dim])
			}
		}
		for d := last - 1; d >= 0; d-- {
			if at[d]++; at[d] < idx.Shape[d] {
				break
			}
			at[d] = 0
		}
	}
	return nil
}

// badIndex returns the error of index i, which is not from 0 to n-1.
func badIndex(r *run, idx *compile.Operand, i, n int) error {
	id, wide := ids(r, idx)
	if _, err := index(id, wide, i, n); err != nil {
		return err
	}
	return fmt.Errorf("%w: index at place %d changed while it was read", tensor.ErrIndex, i)
}

func (movesOf[T]) gather(s *compile.Step) func(r *run) error {
	x, idx, dim := &s.In[0], &s.In[1], int(s.Ints[0])
	stride, n := x.Strides[dim], x.Shape[dim]
	return func(r *run) error {
		src, dst := buf[T](r, x), buf[T](r, &s.Out)
		id, wide := ids(r, idx)
		long, short := slice[int64](id), slice[int32](id)
		lo, hi := r.share(idx.Shape[0], 1)
		return placed(r, x, idx, dim, lo, hi, func(i, count, base, step int) int {
			if wide {
				return pick(dst[i:], src[base:], long[i:i+count], step, stride, n)
			}
			return pick(dst[i:], src[base:], short[i:i+count], step, stride, n)
		})
	}
}

// scatterAdd adds elements with equal places in the order of the source. Threads share
// the first dim, unless indices name places along it: one thread does all then.
func (numericOf[T]) scatterAdd(s *compile.Step) func(r *run) error {
	x, idx, dim := &s.In[0], &s.In[1], int(s.Ints[0])
	stride, n := x.Strides[dim], x.Shape[dim]
	return func(r *run) error {
		base, src, dst := buf[T](r, x), buf[T](r, &s.In[2]), buf[T](r, &s.Out)
		lo, hi := r.share(x.Shape[0], 1)
		row := s.Out.Strides[0] // a dense x of one row may have any
		if from, to := lo*row, hi*row; from < to && &dst[0] != &base[0] {
			copyLong(r, dst[from:to], base[from:to])
		}
		if dim == 0 {
			lo, hi = 0, idx.Shape[0]
		}
		id, wide := ids(r, idx)
		long, short := slice[int64](id), slice[int32](id)
		return placed(r, x, idx, dim, min(lo, idx.Shape[0]), min(hi, idx.Shape[0]), func(i, count, base, step int) int {
			if wide {
				return addPicked(dst[base:], src[i:], long[i:i+count], step, stride, n)
			}
			return addPicked(dst[base:], src[i:], short[i:i+count], step, stride, n)
		})
	}
}
