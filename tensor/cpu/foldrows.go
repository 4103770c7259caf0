package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// rows are the functions that fold contiguous rows: row folds one that is not empty, join
// the results of two, in their order, end stores a result.
type rows[T, A any] struct {
	row  func(r *run, x []T) A
	join func(a, b A) A
	end  func(r *run, i int, a A)
}

// foldRows lowers a fold of one element or more. Those of a row that are apart are copied
// first. All threads share a row that is alone, whose pieces are joined at the end.
func foldRows[T, A any](s *compile.Step, g folding, f rows[T, A]) lowered {
	x := s.In[0]
	if pieces := (g.count + foldPiece - 1) / foldPiece; g.results == 1 && g.alongRow() && pieces > 1 {
		return lowered{
			sums: pieces,
			f: func(r *run) error {
				row, sums := slice[T](r.bufs[x.Buf])[x.Off:][:g.count], slice[A](bytesOf(r.sums))
				for lo, hi := r.share(pieces, 1); lo < hi && !r.stopped(); lo++ {
					sums[lo] = f.row(r, row[lo*foldPiece:min((lo+1)*foldPiece, len(row))])
				}
				return nil
			},
			after: func(r *run) error {
				sums := slice[A](bytesOf(r.sums))[:pieces]
				a := sums[0]
				for _, b := range sums[1:] {
					a = f.join(a, b)
				}
				f.end(r, 0, a)
				return nil
			},
		}
	}
	return lowered{f: func(r *run) error {
		in := slice[T](r.bufs[x.Buf])
		g.kept.rows(r, func(i, off, _, _, _ int) {
			var a A
			first := true
			g.folded.each(r, x.Off+off, func(o, n, st int) {
				most := n
				if st != 1 {
					most = foldRow
				}
				for lo := 0; lo < n && !r.stopped(); lo += most {
					v := f.row(r, piece(r, in, o+lo*st, min(most, n-lo), st))
					if first {
						first, a = false, v
					} else {
						a = f.join(a, v)
					}
				}
			})
			f.end(r, i, a)
		})
		return nil
	}}
}

// piece returns n elements of x from element at on, stride apart: those that are not
// contiguous as a copy.
func piece[T any](r *run, x []T, at, n, stride int) []T {
	if stride == 1 || n == 1 {
		return x[at : at+n]
	}
	copied := scratchRow[T](r, 3, n)
	for i := range copied {
		copied[i] = x[at+i*stride]
	}
	return copied
}

// larger and smaller return the extreme of two numbers, NaN if either is.
func larger[T number](a, b T) T {
	if b > a || b != b && a == a {
		return b
	}
	return a
}

func smaller[T number](a, b T) T {
	if b < a || b != b && a == a {
		return b
	}
	return a
}

// rowFold returns the kernel that folds a row, and what joins the results of two, wide
// enough that many rows don't add up their rounding; nil if there is none.
func rowFold[T float](k *kernel.Table[T], op tensor.Op) (row func([]T) T, join func(a, b float64) float64) {
	switch op {
	case tensor.OpSum, tensor.OpMean:
		return k.Sum, func(a, b float64) float64 { return a + b }
	case tensor.OpAmax:
		return k.RowMax, func(a, b float64) float64 { return max(a, b) }
	case tensor.OpAmin:
		return k.RowMin, func(a, b float64) float64 { return min(a, b) }
	}
	return nil, nil
}
