package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// indexSelect copies the slices that the indices name, which may lie apart along the
// first dim. Threads share the indices. If a slice is one element, they share the rows
// instead, so that each reads elements that are near each other.
func (movesOf[T]) indexSelect(s *compile.Step) func(r *run) error {
	x, idx := &s.In[0], &s.In[1]
	outer, n, inner := split(x.Shape, int(s.Ints[0]))
	m, step := idx.Shape.Elems(), inner
	if s.Ints[0] == 0 && n > 1 {
		step = x.Strides[0]
	}
	return func(r *run) error {
		lo, hi, first, last := 0, m, 0, outer
		if inner == 1 && outer > 1 {
			first, last = r.share(outer, 1)
		} else {
			lo, hi = r.share(m, 1)
		}
		if first == last {
			return nil
		}
		src, dst := buf[T](r, x), buf[T](r, &s.Out)
		// Several slices of x need the same places, which are read once. For a single
		// slice they are read a few at a time, which then stay in the cache.
		most := hi - lo
		if outer == 1 {
			most = tile
		}
		for ; lo < hi && !r.stopped(); lo += most {
			count := min(most, hi-lo)
			places, err := placesOf(r, idx, lo, count, n)
			if err != nil {
				return err
			}
			for o := first; o < last && !r.stopped(); o++ {
				copyNamed(r, dst[(o*m+lo)*inner:], src[min(o*n*inner, len(src)):], places, inner, step, n)
			}
		}
		return nil
	}
}

// placesOf returns the places, along a dim of n, that count indices from index lo on
// name.
func placesOf(r *run, idx *compile.Operand, lo, count, n int) ([]int64, error) {
	r.places = grow(r, r.places, count)
	id, wide := ids(r, idx)
	bad := 0
	if wide {
		bad = fromEnd(r.places, slice[int64](id)[lo:lo+count], n)
	} else {
		bad = fromEnd(r.places, slice[int32](id)[lo:lo+count], n)
	}
	if bad == count {
		return r.places, nil
	}
	if _, err := indexFromEnd(id, wide, lo+bad, n); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: index at place %d changed while it was read", tensor.ErrIndex, lo+bad)
}

// fromEnd stores the places that ids name, of which negative ones count from the end. It
// ends at the first index that is not from -n to n-1 and returns its place, len(ids) if
// there is none.
func fromEnd[I int32 | int64](dst []int64, ids []I, n int) int {
	dst = dst[:len(ids)]
	for j, v := range ids {
		k := int64(v)
		k += k >> 63 & int64(n)
		if uint64(k) >= uint64(n) {
			return j
		}
		dst[j] = k
	}
	return len(ids)
}

// copyNamed copies the slices that places name. A slice has cols elements; src has n
// slices that begin step elements apart.
func copyNamed[T any](r *run, dst, src []T, places []int64, cols, step, n int) {
	switch {
	case cols == 1:
		pick(dst[:len(places)], src, places, 0, step, n)
	case cols > 1 && cols <= shortRow:
		for ; len(places) > 0 && !r.stopped(); places = places[min(breath/cols, len(places)):] {
			some := places[:min(breath/cols, len(places))]
			copyShortNamed(dst, src, some, cols, step)
			dst = dst[len(some)*cols:]
		}
	default:
		for j, k := range places {
			if j%stopRows == 0 && r.stopped() {
				return
			}
			copy(dst[j*cols:][:cols], src[int(k)*step:])
		}
	}
}

// stopRows is how many slices indexSelect copies between two looks at the stop flag.
const stopRows = 16

// copyShortNamed copies the rows of 2 to shortRow elements that places name, some
// elements at a time, the last of which may be copied twice.
func copyShortNamed[T any](dst, src []T, places []int64, cols, step int) {
	switch {
	case cols >= 8:
		for _, k := range places {
			to, from := dst[:cols], src[int(k)*step:][:cols]
			last, lastFrom := (*[8]T)(to[cols-8:]), (*[8]T)(from[cols-8:])
			for ; len(to) > 8 && len(from) > 8; to, from = to[8:], from[8:] {
				*(*[8]T)(to) = *(*[8]T)(from)
			}
			*last = *lastFrom
			dst = dst[cols:]
		}
	case cols >= 4:
		for _, k := range places {
			to, from := dst[:cols], src[int(k)*step:][:cols]
			*(*[4]T)(to) = *(*[4]T)(from)
			*(*[4]T)(to[cols-4:]) = *(*[4]T)(from[cols-4:])
			dst = dst[cols:]
		}
	default:
		for _, k := range places {
			to, from := dst[:cols], src[int(k)*step:][:cols]
			*(*[2]T)(to) = *(*[2]T)(from)
			to[cols-1] = from[cols-1]
			dst = dst[cols:]
		}
	}
}

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

// pickRows is pick for rows of m indices. Each row of indices names places in its own row
// of src, which has n elements.
func pickRows[T any, I int32 | int64](dst, src []T, ids []I, m, n int) int {
	for i := 0; i < len(ids); i += m {
		to, from := dst[i:i+m], src[:n]
		for j, v := range ids[i : i+m] {
			if uint64(v) >= uint64(len(from)) {
				return i + j
			}
			to[j] = from[v]
		}
		src = src[n:]
	}
	return len(ids)
}

// addRowsPicked is addPicked for such rows.
func addRowsPicked[T number, I int32 | int64](dst, src []T, ids []I, m, n int) int {
	for i := 0; i < len(ids); i += m {
		to, from := dst[:n], src[i:i+m]
		for j, v := range ids[i : i+m] {
			if uint64(v) >= uint64(len(to)) {
				return i + j
			}
			to[v] += from[j]
		}
		dst = dst[n:]
	}
	return len(ids)
}

// byRows reports whether the indices in each row of idx, along dim, name places in one
// row of x.
func byRows(x, idx *compile.Operand, dim int) bool {
	return dim == len(x.Shape)-1 && idx.Shape[:dim].Equal(x.Shape[:dim])
}

// placedRows is placed for index tensors of byRows. lo and hi are positions of the first
// dim. f gets the place of the first of some indices, their number, and the place of the
// row of x that belongs to the first.
func placedRows(r *run, x, idx *compile.Operand, lo, hi int, f func(i, count, base int) int) error {
	last := len(idx.Shape) - 1
	m, n := idx.Shape[last], x.Shape[last]
	// rows for each position of the first dim
	per := idx.Shape[:last].Elems() / max(idx.Shape[0], 1)
	for i, end, most := lo*per, hi*per, max(breath/max(m, 1), 1); i < end && m > 0 && !r.stopped(); i += most {
		count := min(most, end-i) * m
		if right := f(i*m, count, i*n); right < count {
			return badIndex(r, idx, i*m+right, n)
		}
	}
	return nil
}

func (movesOf[T]) gather(s *compile.Step) func(r *run) error {
	x, idx, dim := &s.In[0], &s.In[1], int(s.Ints[0])
	stride, n := x.Strides[dim], x.Shape[dim]
	if m := idx.Shape[len(idx.Shape)-1]; dim > 0 && byRows(x, idx, dim) && m <= shortRow {
		return func(r *run) error {
			src, dst := buf[T](r, x), buf[T](r, &s.Out)
			id, wide := ids(r, idx)
			long, short := slice[int64](id), slice[int32](id)
			lo, hi := r.share(idx.Shape[0], 1)
			return placedRows(r, x, idx, lo, hi, func(i, count, base int) int {
				if wide {
					return pickRows(dst[i:], src[base:], long[i:i+count], m, n)
				}
				return pickRows(dst[i:], src[base:], short[i:i+count], m, n)
			})
		}
	}
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
		if m := idx.Shape[len(idx.Shape)-1]; dim > 0 && byRows(x, idx, dim) && m <= shortRow {
			return placedRows(r, x, idx, lo, hi, func(i, count, base int) int {
				if wide {
					return addRowsPicked(dst[base:], src[i:], long[i:i+count], m, n)
				}
				return addRowsPicked(dst[base:], src[i:], short[i:i+count], m, n)
			})
		}
		return placed(r, x, idx, dim, min(lo, idx.Shape[0]), min(hi, idx.Shape[0]), func(i, count, base, step int) int {
			if wide {
				return addPicked(dst[base:], src[i:], long[i:i+count], step, stride, n)
			}
			return addPicked(dst[base:], src[i:], short[i:i+count], step, stride, n)
		})
	}
}
