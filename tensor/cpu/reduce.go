package cpu

import (
	"bytes"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// folding is the geometry of a reduction: kept walks the results, folded the elements
// that fold into each, both over x.
type folding struct {
	kept, folded nest
	count        int // elements folded into one
	results      int
}

// foldingOf returns the geometry of folding dims of x; none stands for all.
func foldingOf(x compile.Operand, dims []int64) folding {
	var ks, fs tensor.Shape
	var kst, fst []int
	for i, n := range x.Shape {
		if len(dims) == 0 || slices.Contains(dims, int64(i)) {
			fs, fst = append(fs, n), append(fst, x.Strides[i])
		} else {
			ks, kst = append(ks, n), append(kst, x.Strides[i])
		}
	}
	return folding{kept: newNest(ks, kst), folded: newNest(fs, fst), count: fs.Elems(), results: ks.Elems()}
}

// each calls f with the offset of every row of a nest, its length and stride. Long rows
// come in pieces.
func (n *nest) each(r *run, off int, f func(off, n, stride int)) {
	odo := odometer{n: n}
	for {
		at, st := off+odo.off[0], n.innerStride(0)
		for left := n.inner(); left > 0 && !r.stopped(); left -= longRow {
			f(at, min(left, longRow), st)
			at += longRow * st
		}
		if r.stopped() || !odo.next() {
			return
		}
	}
}

func (lw *lowerer) reduction(s *compile.Step) lowered {
	g := foldingOf(s.In[0], s.Ints[1:])
	x := s.In[0]
	if g.results == 0 {
		return lowered{f: nothing}
	}
	if l := lw.fold(s, g); l.f != nil {
		return l
	}
	switch s.Op {
	case tensor.OpArgmax, tensor.OpArgmin:
		if x.DType == tensor.F32 && g.alongRow() {
			return lowered{f: placeInRows(s, g, lw.table.RowMax, lw.table.RowMin)}
		}
		if x.DType == tensor.F64 && g.alongRow() {
			return lowered{f: placeInRows(s, g, lw.table64.RowMax, lw.table64.RowMin)}
		}
		return lowered{f: numericBy[x.DType].place(s, g)}
	case tensor.OpAmax, tensor.OpAmin:
		return numericBy[x.DType].extreme(s, g)
	case tensor.OpAny, tensor.OpAll:
		return anyAll(s, g)
	}
	switch x.DType {
	case tensor.F32:
		return sumFloat[float32](s, g)
	case tensor.F64:
		return sumFloat[float64](s, g)
	case tensor.I32:
		return sumInt[int32](s, g)
	case tensor.I64:
		return sumInt[int64](s, g)
	}
	return sumInt[uint8](s, g)
}

// numeric are the lowerings that every dtype of numbers has.
type numeric interface {
	extreme(s *compile.Step, g folding) lowered
	place(s *compile.Step, g folding) func(r *run) error
	cumsum(s *compile.Step) func(r *run) error
	scatterAdd(s *compile.Step) func(r *run) error
}

type numericOf[T number] struct{}

// numericBy holds the instances. A bool is a byte 0 or 1.
var numericBy = map[tensor.DType]numeric{
	tensor.F32: numericOf[float32]{}, tensor.F64: numericOf[float64]{}, tensor.I32: numericOf[int32]{}, tensor.I64: numericOf[int64]{},
	tensor.U8: numericOf[uint8]{}, tensor.Bool: numericOf[uint8]{},
}

// fold is foldFloat for a step of f32 or f64.
func (lw *lowerer) fold(s *compile.Step, g folding) (l lowered) {
	switch s.In[0].DType {
	case tensor.F32:
		return foldFloat(s, g, lw.table)
	case tensor.F64:
		return foldFloat(s, g, lw.table64)
	}
	return l
}

// foldFloat lowers the folds that run at the speed of memory: along contiguous rows, and
// down contiguous columns. It has no function for others.
func foldFloat[T float](s *compile.Step, g folding, k *kernel.Table[T]) (l lowered) {
	x := s.In[0]
	if g.count == 0 {
		return l
	}
	by := 1.0
	if s.Op == tensor.OpMean {
		by = float64(g.count)
	}
	if g.folded.innerStride(0) == 1 && g.folded.inner() > 1 || g.count == 1 {
		row, join := rowFold(k, s.Op)
		if row == nil {
			return l
		}
		return foldRows(s, g, rows[T, float64]{
			row:  func(x []T) float64 { return float64(row(x)) },
			join: join,
			end:  func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a / by) },
		})
	}
	if !g.inColumns() {
		return l
	}
	switch s.Op {
	case tensor.OpAmax, tensor.OpAmin:
	case tensor.OpSum, tensor.OpMean:
		l.f = func(r *run) error {
			in, out := slice[T](r.bufs[x.Buf]), slice[T](r.bufs[s.Out.Buf])
			g.tiles(r, func(i, at, n int) {
				c := newColumns(r, k, out[i:i+n], g.count)
				g.eachRow(r, x.Off+at, func(off int) { c.row(in[off : off+n]) })
				c.finish()
				if by != 1 {
					c.divide(k, T(by))
				}
			})
			return nil
		}
		return l
	default:
		return l
	}
	l.f = extremeColumns(s, g, k.Max, k.Min)
	return l
}

// extremeColumns lowers amax and amin of elements under one another: largest and smallest
// are those of two rows.
func extremeColumns[T number](s *compile.Step, g folding, largest, smallest func(dst, a, b []T)) func(r *run) error {
	x, more := s.In[0], largest
	if s.Op == tensor.OpAmin {
		more = smallest
	}
	return func(r *run) error {
		in, out := slice[T](r.bufs[x.Buf]), slice[T](r.bufs[s.Out.Buf])
		g.tiles(r, func(i, at, n int) {
			acc, first := out[i:i+n], true
			g.eachRow(r, x.Off+at, func(off int) {
				if first {
					first = false
					copy(acc, in[off:off+n])
				} else {
					more(acc, acc, in[off:off+n])
				}
			})
		})
		return nil
	}
}

func largerRow[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = larger(v, b[i])
	}
}

func smallerRow[T number](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = smaller(v, b[i])
	}
}

// alongRow reports whether the elements that fold into each result are one contiguous
// row.
func (g *folding) alongRow() bool {
	return g.count > 0 && g.folded.innerStride(0) == 1 && len(g.folded.dims) == 1
}

// placeInRows lowers argmax and argmin of contiguous rows: rowMax or rowMin finds the
// extreme of a piece, which is looked for only in a piece with a new one.
func placeInRows[T number](s *compile.Step, g folding, rowMax, rowMin func(x []T) T) func(r *run) error {
	x, extreme, beyond := s.In[0], rowMax, func(a, b T) bool { return a > b }
	if s.Op == tensor.OpArgmin {
		extreme, beyond = rowMin, func(a, b T) bool { return a < b }
	}
	return func(r *run) error {
		in, out := slice[T](r.bufs[x.Buf]), slice[int64](r.bufs[s.Out.Buf])
		g.kept.rows(r, func(i, off, _, _, _ int) {
			row, at := in[x.Off+off:][:g.count], 0
			for lo := 0; lo < len(row) && row[at] == row[at] && !r.stopped(); lo += tile {
				piece := row[lo:min(lo+tile, len(row))]
				if v := extreme(piece); lo == 0 || v != v || beyond(v, row[at]) {
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

// rows are the functions that fold contiguous rows: row folds one that is not empty, join
// the results of two, in their order, end stores a result.
type rows[T, A any] struct {
	row  func(x []T) A
	join func(a, b A) A
	end  func(r *run, i int, a A)
}

// foldPiece is how many elements of a row that folds into the only result a thread folds
// at a time. It does not depend on the number of threads, so the bits don't either.
const foldPiece = 1 << 16

// foldRows lowers a fold of elements of which the innermost are contiguous; there is one
// at least. All threads share a row that is alone, whose pieces are joined at the end.
func foldRows[T, A any](s *compile.Step, g folding, f rows[T, A]) lowered {
	x := s.In[0]
	if pieces := (g.count + foldPiece - 1) / foldPiece; g.results == 1 && g.alongRow() && pieces > 1 {
		return lowered{
			sums: pieces,
			f: func(r *run) error {
				row, sums := slice[T](r.bufs[x.Buf])[x.Off:][:g.count], slice[A](bytesOf(r.sums))
				for lo, hi := r.share(pieces, 1); lo < hi && !r.stopped(); lo++ {
					sums[lo] = f.row(row[lo*foldPiece : min((lo+1)*foldPiece, len(row))])
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
			g.folded.each(r, x.Off+off, func(o, n, _ int) {
				v := f.row(in[o : o+n])
				if first {
					first, a = false, v
				} else {
					a = f.join(a, v)
				}
			})
			f.end(r, i, a)
		})
		return nil
	}}
}

// inRows reports whether the elements that fold into each result lie in contiguous rows.
func (g *folding) inRows() bool {
	return g.count > 0 && g.folded.innerStride(0) == 1 && !g.inColumns()
}

// sumRow returns the sum of a row, by eight sums of every eighth element: one alone would
// wait for each addition.
func sumRow[T, A number](x []T) A {
	var a, b, c, d, e, f, g, h A
	for ; len(x) >= 8; x = x[8:] {
		v := (*[8]T)(x)
		a, b, c, d = a+A(v[0]), b+A(v[1]), c+A(v[2]), d+A(v[3])
		e, f, g, h = e+A(v[4]), f+A(v[5]), g+A(v[6]), h+A(v[7])
	}
	for _, v := range x {
		a += A(v)
	}
	return a + b + (c + d) + (e + f + (g + h))
}

// prodRow returns the product of a row, by eight products as sumRow.
func prodRow[T, A number](x []T) A {
	a, b, c, d, e, f, g, h := A(1), A(1), A(1), A(1), A(1), A(1), A(1), A(1)
	for ; len(x) >= 8; x = x[8:] {
		v := (*[8]T)(x)
		a, b, c, d = a*A(v[0]), b*A(v[1]), c*A(v[2]), d*A(v[3])
		e, f, g, h = e*A(v[4]), f*A(v[5]), g*A(v[6]), h*A(v[7])
	}
	for _, v := range x {
		a *= A(v)
	}
	return a * b * (c * d) * (e * f * (g * h))
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

// rowMax and rowMin return the extreme of a row that is not empty, NaN if one is.
func rowMax[T number](x []T) T {
	a, b, c, d := x[0], x[0], x[0], x[0]
	for ; len(x) >= 4; x = x[4:] {
		v := (*[4]T)(x)
		a, b, c, d = larger(a, v[0]), larger(b, v[1]), larger(c, v[2]), larger(d, v[3])
	}
	for _, v := range x {
		a = larger(a, v)
	}
	return larger(larger(a, b), larger(c, d))
}

func rowMin[T number](x []T) T {
	a, b, c, d := x[0], x[0], x[0], x[0]
	for ; len(x) >= 4; x = x[4:] {
		v := (*[4]T)(x)
		a, b, c, d = smaller(a, v[0]), smaller(b, v[1]), smaller(c, v[2]), smaller(d, v[3])
	}
	for _, v := range x {
		a = smaller(a, v)
	}
	return smaller(smaller(a, b), smaller(c, d))
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

// folds goes through the elements of every result in row-major order: add adds an element
// to the state, end stores the result. The state is a value, so that none is allocated.
// Where results lie in columns, addRow adds a row to their states, the same way.
func folds[T, A any](s *compile.Step, g folding, start A, add func(a A, x T) A, addRow func(a []A, x []T), end func(r *run, i int, a A)) func(r *run) error {
	x := s.In[0]
	if g.inColumns() {
		return func(r *run) error {
			in := slice[T](r.bufs[x.Buf])
			g.tiles(r, func(i, at, n int) {
				states := scratchRow[A](r, 0, n)
				for j := range states {
					states[j] = start
				}
				g.eachRow(r, x.Off+at, func(off int) { addRow(states, in[off:off+n]) })
				for j, a := range states {
					end(r, i+j, a)
				}
			})
			return nil
		}
	}
	inner, step := g.folded.inner(), g.folded.innerStride(0)
	return func(r *run) error {
		in := slice[T](r.bufs[x.Buf])
		g.kept.rows(r, func(i, off, _, _, _ int) {
			a := start
			for folded := (odometer{n: &g.folded}); g.count > 0; {
				at := x.Off + off + folded.off[0]
				for left := inner; left > 0 && !r.stopped(); left -= breath {
					for range min(left, breath) {
						a = add(a, in[at])
						at += step
					}
				}
				if r.stopped() || !folded.next() {
					break
				}
			}
			end(r, i, a)
		})
		return nil
	}
}

// sumFloat lowers sum, mean and product, in float64.
func sumFloat[T float](s *compile.Step, g folding) lowered {
	end := func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a) }
	if s.Op == tensor.OpMean {
		end = func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a / float64(g.count)) }
	}
	return totals[T](s, g, end)
}

// sumInt lowers sum and product as i64, mean as f32 of a sum in float64, which does not
// wrap.
func sumInt[T integer](s *compile.Step, g folding) lowered {
	if s.Op == tensor.OpMean {
		return totals[T](s, g, func(r *run, i int, a float64) {
			slice[float32](r.bufs[s.Out.Buf])[i] = float32(a / float64(g.count))
		})
	}
	return totals[T](s, g, func(r *run, i int, a int64) { slice[int64](r.bufs[s.Out.Buf])[i] = a })
}

// totals lowers a product, or otherwise a sum, in A.
func totals[T, A number](s *compile.Step, g folding, end func(r *run, i int, a A)) lowered {
	if s.Op == tensor.OpProd {
		if g.inRows() {
			return foldRows(s, g, rows[T, A]{prodRow[T, A], func(a, b A) A { return a * b }, end})
		}
		return lowered{f: folds(s, g, 1, func(a A, x T) A { return a * A(x) }, mulRow[T, A], end)}
	}
	if g.inRows() {
		return foldRows(s, g, rows[T, A]{sumRow[T, A], func(a, b A) A { return a + b }, end})
	}
	return lowered{f: folds(s, g, 0, func(a A, x T) A { return a + A(x) }, addRow[T, A], end)}
}

// best is the most extreme element so far and its number; n counts.
type best[T any] struct {
	x     T
	at, n int64
}

// more reports whether an element replaces the best: a first one, a NaN (which then
// stays), or one beyond.
func more[T number](largest bool) func(b best[T], x T) best[T] {
	return func(b best[T], x T) best[T] {
		beyond := x < b.x
		if largest {
			beyond = x > b.x
		}
		if b.n == 0 || (beyond || x != x) && b.x == b.x {
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
			beyond := v < b.x
			if largest {
				beyond = v > b.x
			}
			if b.n == 0 || (beyond || v != v) && b.x == b.x {
				b.x, b.at = v, b.n
			}
			b.n++
		}
	}
}

func (numericOf[T]) extreme(s *compile.Step, g folding) lowered {
	largest := s.Op == tensor.OpAmax
	if g.inRows() {
		f := rows[T, T]{rowMin[T], smaller[T], func(r *run, i int, a T) { slice[T](r.bufs[s.Out.Buf])[i] = a }}
		if largest {
			f.row, f.join = rowMax[T], larger[T]
		}
		return foldRows(s, g, f)
	}
	if g.inColumns() {
		return lowered{f: extremeColumns(s, g, largerRow[T], smallerRow[T])}
	}
	return lowered{f: folds(s, g, best[T]{}, more[T](largest), moreRow[T](largest), func(r *run, i int, b best[T]) { slice[T](r.bufs[s.Out.Buf])[i] = b.x })}
}

// place lowers argmax and argmin: the place of the first extreme element; a NaN counts
// as one.
func (numericOf[T]) place(s *compile.Step, g folding) func(r *run) error {
	if g.alongRow() {
		return placeInRows(s, g, rowMax[T], rowMin[T])
	}
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpArgmax), moreRow[T](s.Op == tensor.OpArgmax), func(r *run, i int, b best[T]) { slice[int64](r.bufs[s.Out.Buf])[i] = b.at })
}

// anyAll lowers any and all of bools, bytes 0 and 1.
func anyAll(s *compile.Step, g folding) lowered {
	end := func(r *run, i int, yes bool) { r.bufs[s.Out.Buf][i] = truth(yes) }
	if s.Op == tensor.OpAll {
		if g.inRows() {
			return foldRows(s, g, rows[uint8, bool]{func(x []uint8) bool { return bytes.IndexByte(x, 0) < 0 }, func(a, b bool) bool { return a && b }, end})
		}
		return lowered{f: folds(s, g, 1, func(yes uint8, x uint8) uint8 { return yes & x }, andBools, func(r *run, i int, yes uint8) { end(r, i, yes != 0) })}
	}
	if g.inRows() {
		return foldRows(s, g, rows[uint8, bool]{func(x []uint8) bool { return bytes.IndexByte(x, 1) >= 0 }, func(a, b bool) bool { return a || b }, end})
	}
	return lowered{f: folds(s, g, 0, func(yes uint8, x uint8) uint8 { return yes | x }, orBools, func(r *run, i int, yes uint8) { end(r, i, yes != 0) })}
}

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
		return func(r *run) error {
			x, y := buf[T](r, &s.In[0]), buf[A](r, &s.Out)
			lo, hi := r.share(outer, 1)
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
			for range n {
				if r.stopped() {
					return nil
				}
				from, to := x[at:][:m], y[at:][:m]
				for i, v := range from {
					to[i] = sums[i] + A(v)
				}
				sums = to
				at += step * inner
			}
		}
		return nil
	}
}

// split returns a shape as outer x dim x inner.
func split(shape tensor.Shape, dim int) (outer, n, inner int) {
	return shape[:dim].Elems(), shape[dim], shape[dim+1:].Elems()
}
