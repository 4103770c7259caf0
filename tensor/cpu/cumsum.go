package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

func (numericOf[T]) cumsum(s *compile.Step) func(r *run) error {
	if s.Out.DType == tensor.I64 {
		return cumsum[T, int64](s)
	}
	return cumsum[T, T](s)
}

// cumsum lowers the running sum along dim s.Ints[0], from its end if s.Ints[1]. Threads
// share the rows along the dim, or tiles of columns where it is not the last.
func cumsum[T, A number](s *compile.Step) func(r *run) error {
	outer, n, inner := split(s.Out.Shape, int(s.Ints[0]))
	first, step := 0, 1 // places along the dim
	if s.Ints[1] != 0 {
		first, step = n-1, -1
	}
	if inner == 1 {
		short := n*sizeOf[A]() <= fourRows
		return func(r *run) error {
			x, y := buf[T](r, &s.In[0]), buf[A](r, &s.Out)
			lo, hi := r.share(outer, 1)
			for ; short && lo+4 <= hi && !r.stopped(); lo += 4 {
				cumsumFour(y[lo*n:], x[lo*n:], n, first, step)
			}
			for o := lo; o < hi; o++ {
				from, to, at := x[o*n:][:n], y[o*n:][:n], first
				var acc A
				for left := n; left > 0; left -= breath {
					if r.stopped() {
						return nil
					}
					for range min(left, breath) {
						acc += A(from[at])
						to[at] = acc
						at += step
					}
				}
			}
			return nil
		}
	}
	tiles := (inner + columnTile - 1) / columnTile
	return func(r *run) error {
		x, y := buf[T](r, &s.In[0]), buf[A](r, &s.Out)
		before := scratchRow[A](r, 0, min(columnTile, inner))
		for lo, hi := r.share(outer*tiles, 1); lo < hi; lo++ {
			col := lo % tiles * columnTile
			m := min(columnTile, inner-col)
			at := (lo/tiles*n+first)*inner + col
			sums := before[:m]
			clear(sums)
			if m <= shortRow {
				for left := n; left > 0 && !r.stopped(); left -= breath {
					cumsumRows(y, x, sums, at, step*inner, min(left, breath))
					at += breath * step * inner
				}
				continue
			}
			for range n {
				if r.stopped() {
					return nil
				}
				from, to := x[at:][:m], y[at:][:m]
				addTo(r, to, sums, from)
				sums = to
				at += step * inner
			}
		}
		return nil
	}
}

// cumsumRows stores the running sums down a few columns: of so many rows, which lie by
// apart, from element at on. They go on from sums, which become the last ones.
func cumsumRows[T, A number](y []A, x []T, sums []A, at, by, rows int) {
	for range rows {
		from, to := x[at:][:len(sums)], y[at:][:len(sums)]
		for i, v := range from {
			sums[i] += A(v)
			to[i] = sums[i]
		}
		at += by
	}
}

// addTo is dst[i] = sums[i] + x[i].
func addTo[T, A number](r *run, dst, sums []A, x []T) {
	switch d := any(dst).(type) {
	case []float32:
		if v, ok := any(x).([]float32); ok {
			r.table.Add(d, any(sums).([]float32), v)
			return
		}
	case []float64:
		if v, ok := any(x).([]float64); ok {
			r.table64.Add(d, any(sums).([]float64), v)
			return
		}
	}
	sums, x = sums[:len(dst)], x[:len(dst)]
	for i, v := range x {
		dst[i] = sums[i] + A(v)
	}
}

// fourRows is the longest result, in bytes, that cumsum computes four of at a time: of
// longer ones the lines that it writes may fall into one set of the first-level cache.
const fourRows = 256

// cumsumFour stores the running sums of four rows of n elements, from place first on. A
// row alone would wait for each addition.
func cumsumFour[T, A number](y []A, x []T, n, first, step int) {
	x0, x1, x2, x3 := x[:n], x[n:][:n], x[2*n:][:n], x[3*n:][:n]
	y0, y1, y2, y3 := y[:n], y[n:][:n], y[2*n:][:n], y[3*n:][:n]
	var a, b, c, d A
	for range n {
		a, b, c, d = a+A(x0[first]), b+A(x1[first]), c+A(x2[first]), d+A(x3[first])
		y0[first], y1[first], y2[first], y3[first] = a, b, c, d
		first += step
	}
}
