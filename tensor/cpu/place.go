package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// placeByFolds lowers argmax and argmin of contiguous rows, or of elements under one
// another.
func (lw *lowerer) placeByFolds(s *compile.Step, g folding) func(r *run) error {
	switch s.In[0].DType {
	case tensor.F32:
		return placeBy(s, g, lw.folds.F32)
	case tensor.F64:
		return placeBy(s, g, lw.folds.F64)
	case tensor.I32:
		return placeBy(s, g, lw.folds.I32)
	case tensor.I64:
		return placeBy(s, g, lw.folds.I64)
	}
	return placeBy(s, g, lw.folds.U8)
}

func placeBy[T number](s *compile.Step, g folding, of kernel.FoldsOf[T]) func(r *run) error {
	if g.alongRow() {
		return placeInRows(s, g, of)
	}
	return placeInColumns(s, g, of)
}

const (
	// placeRows is how many rows placeInColumns folds at a time before it looks for the
	// places of new extremes, and turnedRows the same of so few columns that it
	// transposes them first.
	placeRows, turnedRows = 16, 512
	// turnedColumns is the most columns that are transposed.
	turnedColumns = 16
)

// placeInColumns finds the extremes of some rows at a time, whose places are looked for
// only in columns with a new one.
func placeInColumns[T number](s *compile.Step, g folding, of kernel.FoldsOf[T]) func(r *run) error {
	x, largest := s.In[0], s.Op == tensor.OpArgmax
	fold := of.Min
	if largest {
		fold = of.Max
	}
	return func(r *run) error {
		in, out := slice[T](r.bufs[x.Buf]), slice[int64](r.bufs[s.Out.Buf])
		g.tiles(r, columnTile, func(i, at, n int) {
			top, found, places := scratchRow[T](r, 0, n), scratchRow[T](r, 1, n), out[i:i+n]
			most, done := placeRows, 0
			if n <= turnedColumns {
				most = turnedRows
			}
			g.eachRows(r, x.Off+at, most, func(off, rows, stride int) {
				if n <= turnedColumns && rows > placeRows && stride >= n {
					turned := scratchRow[T](r, 2, n*rows)
					turn(r, turned, rows, in[off:], stride, n, rows)
					fold.Rows(found, turned, rows, rows)
				} else {
					fold.Columns(found, in[off:], stride, rows, false)
				}
				for j, v := range found {
					t := top[j]
					beyond := v < t
					if largest {
						beyond = v > t
					}
					if done > 0 && (t != t || v == v && !beyond) {
						continue
					}
					q := 0
					for e := in[off+j]; e != v && e == e; e = in[off+q*stride+j] {
						q++
					}
					top[j], places[j] = v, int64(done+q)
				}
				done += rows
			})
		})
		return nil
	}
}

// placeInRows finds the extreme of each piece of a row, which is looked for only in a
// piece with a new one.
func placeInRows[T number](s *compile.Step, g folding, of kernel.FoldsOf[T]) func(r *run) error {
	if g.count <= shortRow {
		return placeInShort[T](s, g)
	}
	x, fold, beyond := s.In[0], of.Max, func(a, b T) bool { return a > b }
	if s.Op == tensor.OpArgmin {
		fold, beyond = of.Min, func(a, b T) bool { return a < b }
	}
	return func(r *run) error {
		in, out := slice[T](r.bufs[x.Buf]), slice[int64](r.bufs[s.Out.Buf])
		one := scratchRow[T](r, 0, 1)
		g.kept.rows(r, func(i, off, _, _, _ int) {
			row, at := in[x.Off+off:][:g.count], 0
			for lo := 0; lo < len(row) && row[at] == row[at] && !r.stopped(); lo += tile {
				piece := row[lo:min(lo+tile, len(row))]
				fold.Rows(one, piece, len(piece), len(piece))
				if v := one[0]; lo == 0 || v != v || beyond(v, row[at]) {
					at = lo
					for piece[at-lo] != v && piece[at-lo] == piece[at-lo] {
						at++
					}
				}
			}
			out[i] = int64(at)
		})
		return nil
	}
}

// placeInShort is placeInRows of rows so short that a call for each would take most of
// the time. It goes by integers, whose extremes take no branches.
func placeInShort[T number](s *compile.Step, g folding) func(r *run) error {
	x, smallest, n := s.In[0], s.Op == tensor.OpArgmin, g.count
	return func(r *run) error {
		in, out := slice[T](r.bufs[x.Buf]), slice[int64](r.bufs[s.Out.Buf])
		ranks := scratchRow[int64](r, 0, stripRows*n)
		g.kept.results(r, stripRows, func(i, at, count int) {
			st := g.kept.innerStride(0)
			if st == n {
				rankAll(ranks[:count*n], in[x.Off+at:], smallest)
			} else {
				for j := range count {
					rankAll(ranks[j*n:][:n], in[x.Off+at+j*st:], smallest)
				}
			}
			placeLargest(out[i:i+count], ranks[:count*n])
		})
		return nil
	}
}

// placeLargest finds the place of the first largest element of each row of x, which has
// as many rows as dst elements.
func placeLargest(dst, x []int64) {
	n := len(x) / len(dst)
	for i := range dst {
		row := x[i*n:][:n]
		top, at := row[0], 0
		for j, v := range row {
			beyond := v > top
			if beyond {
				at = j
			}
			top = max(top, v)
		}
		dst[i] = int64(at)
	}
}

// rankAll writes integers in the order of the elements of x, or the opposite one: equal
// ones for equal elements, and the largest integer for NaN.
func rankAll[T number](dst []int64, x []T, opposite bool) {
	turn := int64(0)
	if opposite {
		turn = -1
	}
	x = x[:len(dst)]
	switch x := any(x).(type) {
	case []float32:
		for i, v := range x {
			b := int32(math.Float32bits(v + 0)) // of zeros the positive
			dst[i] = int64(b^int32(uint32(b>>31)>>1)) ^ turn
			if v != v {
				dst[i] = math.MaxInt64
			}
		}
	case []float64:
		for i, v := range x {
			b := int64(math.Float64bits(v + 0))
			dst[i] = b ^ int64(uint64(b>>63)>>1) ^ turn
			if v != v {
				dst[i] = math.MaxInt64
			}
		}
	case []int32:
		for i, v := range x {
			dst[i] = int64(v) ^ turn
		}
	case []int64:
		for i, v := range x {
			dst[i] = v ^ turn
		}
	case []uint8:
		for i, v := range x {
			dst[i] = int64(v) ^ turn
		}
	}
}

// best is the most extreme element so far and its number; n counts.
type best[T any] struct {
	x     T
	at, n int64
}

// ahead reports whether an element replaces the best: a first one, a NaN (which then
// stays), or one beyond.
func ahead[T number](b best[T], x T, largest bool) bool {
	beyond := x < b.x
	if largest {
		beyond = x > b.x
	}
	return b.n == 0 || (beyond || x != x) && b.x == b.x
}

// more takes one more element.
func more[T number](largest bool) func(b best[T], x T) best[T] {
	return func(b best[T], x T) best[T] {
		if ahead(b, x, largest) {
			b.x, b.at = x, b.n
		}
		b.n++
		return b
	}
}

// moreRow is more for a row.
func moreRow[T number](largest bool) func(a []best[T], x []T) {
	return func(a []best[T], x []T) {
		a = a[:len(x)]
		for i, v := range x {
			b := &a[i]
			if ahead(*b, v, largest) {
				b.x, b.at = v, b.n
			}
			b.n++
		}
	}
}

// place lowers argmax and argmin: the place of the first extreme element; a NaN counts
// as one.
func (numericOf[T]) place(s *compile.Step, g folding) func(r *run) error {
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpArgmax), moreRow[T](s.Op == tensor.OpArgmax), func(r *run, i int, b best[T]) { slice[int64](r.bufs[s.Out.Buf])[i] = b.at })
}
