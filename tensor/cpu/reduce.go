package cpu

import (
	"bytes"
	"math"
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
		if g.alongRow() {
			return lowered{f: lw.placeInRows(s, g)}
		}
		return lowered{f: numericBy[x.DType].place(s, g)}
	case tensor.OpAny, tensor.OpAll:
		return anyAll(s, g)
	}
	switch x.DType {
	case tensor.F32, tensor.F16, tensor.BF16: // of 16 bits only none: fold has the others
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

// alongRow reports whether the elements that fold into each result are one contiguous
// row.
func (g *folding) alongRow() bool {
	return g.count > 0 && g.folded.innerStride(0) == 1 && len(g.folded.dims) == 1
}

// placeInRows lowers argmax and argmin of contiguous rows.
func (lw *lowerer) placeInRows(s *compile.Step, g folding) func(r *run) error {
	switch s.In[0].DType {
	case tensor.F32:
		return placeInRows(s, g, lw.folds.F32)
	case tensor.F64:
		return placeInRows(s, g, lw.folds.F64)
	case tensor.I32:
		return placeInRows(s, g, lw.folds.I32)
	case tensor.I64:
		return placeInRows(s, g, lw.folds.I64)
	}
	return placeInRows(s, g, lw.folds.U8)
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

// inRows reports whether the elements that fold into each result lie in contiguous rows.
func (g *folding) inRows() bool {
	return g.count > 0 && g.folded.innerStride(0) == 1 && !g.inColumns()
}

// sumRow returns the sum of a row, by eight sums of every eighth element: one alone would
// wait for each addition.
func sumRow[T, A number](_ *run, x []T) A {
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
func prodRow[T, A number](_ *run, x []T) A {
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
			g.tiles(r, columnTile, func(i, at, n int) {
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

// sumFloat lowers sum, mean and product of elements apart, in float64.
func sumFloat[T float](s *compile.Step, g folding) lowered {
	end := func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a) }
	if s.Op == tensor.OpMean {
		end = func(r *run, i int, a float64) { slice[T](r.bufs[s.Out.Buf])[i] = T(a / float64(g.count)) }
	}
	return totals[T](s, g, end)
}

// sumInt lowers the product as i64, the mean of i64 as f32 of a sum in float64, which
// does not wrap, and what has no elements.
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
		if g.alongRow() && g.count <= shortRow && g.results > 1 {
			return lowered{f: prodShort[T, A](s, g, end)}
		}
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

// prodShort lowers the product of rows so short that a loop for each would take most of
// the time: column by column, some rows at a time.
func prodShort[T, A number](s *compile.Step, g folding, end func(r *run, i int, a A)) func(r *run) error {
	x, n := s.In[0], g.count
	return func(r *run) error {
		in, acc := slice[T](r.bufs[x.Buf]), scratchRow[A](r, 0, stripRows)
		g.kept.results(r, stripRows, func(i, at, count int) {
			rows, st := acc[:count], g.kept.innerStride(0)
			for j := range n {
				from := x.Off + at + j
				for q := range rows {
					v := A(in[from])
					if j > 0 {
						v *= rows[q]
					}
					rows[q] = v
					from += st
				}
			}
			for q, a := range rows {
				end(r, i+q, a)
			}
		})
		return nil
	}
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

// place lowers argmax and argmin: the place of the first extreme element; a NaN counts
// as one.
func (numericOf[T]) place(s *compile.Step, g folding) func(r *run) error {
	return folds(s, g, best[T]{}, more[T](s.Op == tensor.OpArgmax), moreRow[T](s.Op == tensor.OpArgmax), func(r *run, i int, b best[T]) { slice[int64](r.bufs[s.Out.Buf])[i] = b.at })
}

// anyAll lowers any and all of bools, bytes 0 and 1.
func anyAll(s *compile.Step, g folding) lowered {
	end := func(r *run, i int, yes bool) { r.bufs[s.Out.Buf][i] = truth(yes) }
	if s.Op == tensor.OpAll {
		if g.inRows() {
			return foldRows(s, g, rows[uint8, bool]{func(_ *run, x []uint8) bool { return bytes.IndexByte(x, 0) < 0 }, func(a, b bool) bool { return a && b }, end})
		}
		return lowered{f: folds(s, g, 1, func(yes uint8, x uint8) uint8 { return yes & x }, andBools, func(r *run, i int, yes uint8) { end(r, i, yes != 0) })}
	}
	if g.inRows() {
		return foldRows(s, g, rows[uint8, bool]{func(_ *run, x []uint8) bool { return bytes.IndexByte(x, 1) >= 0 }, func(a, b bool) bool { return a || b }, end})
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

// split returns a shape as outer x dim x inner.
func split(shape tensor.Shape, dim int) (outer, n, inner int) {
	return shape[:dim].Elems(), shape[dim], shape[dim+1:].Elems()
}
