package cpu

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// moves are the lowerings that depend on the size of an element alone.
type moves interface {
	plainCopy(s *compile.Step) func(r *run) error
	concat(s *compile.Step) func(r *run) error
	pad(s *compile.Step) (first, second func(r *run) error)
	triangle(s *compile.Step) func(r *run) error
	indexSelect(s *compile.Step) func(r *run) error
	gather(s *compile.Step) func(r *run) error
	where() loop
	copies() loop
}

type movesOf[T any] struct{}

// movesBySize holds the instances by the size of their elements.
var movesBySize = [...]moves{1: movesOf[uint8]{}, 2: movesOf[uint16]{}, 4: movesOf[uint32]{}, 8: movesOf[uint64]{}}

// copier copies elements from one set of strides to another.
type copier struct {
	n      nest // of destination and source; the last two dims are done at once
	shared int  // the dim that threads share
	empty  bool
}

// newCopier returns a copier of shape. A dim along which the source is contiguous becomes
// the last but one, if the last isn't, so that a transposition goes block by block.
func newCopier(shape tensor.Shape, dst, src []int) copier {
	c := copier{n: newNest(shape, dst, src), empty: shape.Elems() == 0}
	n := &c.n
	n.rowAlone()
	last := len(n.dims) - 1
	if i := slices.Index(n.strides[1][:last], 1); i >= 0 && n.strides[1][last] != 1 {
		n.dims[i], n.dims[last-1] = n.dims[last-1], n.dims[i]
		for k := range n.strides {
			n.strides[k][i], n.strides[k][last-1] = n.strides[k][last-1], n.strides[k][i]
		}
	}
	const enough = 64 // for all threads to have much the same work
	if c.shared = slices.IndexFunc(n.dims, func(d int) bool { return d >= enough }); c.shared < 0 {
		c.shared = slices.Index(n.dims, slices.Max(n.dims))
	}
	return c
}

// copyAll copies this thread's part of src, which begins at element from, to dst, from
// element to on.
func copyAll[T any](r *run, c *copier, dst []T, to int, src []T, from int) {
	last := len(c.n.dims) - 1
	unit := 1
	if c.shared >= last-1 {
		unit = blockSide
	}
	lo, hi := r.share(c.n.dims[c.shared], unit)
	if c.empty || lo == hi {
		return
	}
	var dims [tensor.MaxRank + 1]int
	n := nest{dims: dims[:copy(dims[:], c.n.dims)], strides: c.n.strides}
	n.dims[c.shared] = hi - lo
	to += lo * n.strides[0][c.shared]
	from += lo * n.strides[1][c.shared]
	rows, cols := n.dims[last-1], n.dims[last]
	dr, dc, sr, sc := n.strides[0][last-1], n.strides[0][last], n.strides[1][last-1], n.strides[1][last]
	odo := odometer{n: &n, inside: 1}
	for {
		d, s := to+odo.off[0], from+odo.off[1]
		switch {
		case dc == 1 && (sc == 1 || sc == 0):
			copyRows(r, dst, d, dr, src, s, sr, rows, cols, sc == 0)
		case dc == 1 && sr == 1 && sc >= rows && dr >= cols:
			transpose(r, dst[d:], dr, src[s:], sc, rows, cols)
		default:
			copyApart(r, &loose[T]{dst, src, dr, dc, sr, sc}, d, s, rows, cols)
		}
		if r.stopped() || !odo.next() {
			return
		}
	}
}

// loose is how rows and columns lie apart in what copyApart copies.
type loose[T any] struct {
	dst, src       []T
	dr, dc, sr, sc int
}

// stripRows is how many short rows are gone through at a time: they stay in the
// first-level cache.
const stripRows = 256

// copyApart copies rows of cols elements, none of which need be contiguous, from elements
// s and d on: of rows that are short column by column, as the loops are long then.
func copyApart[T any](r *run, x *loose[T], d, s, rows, cols int) {
	if x.dc == 1 && x.sc == -1 && cols >= 8 && cols <= shortRow {
		for most := breath / cols; rows > 0 && !r.stopped(); rows -= most {
			n := min(rows, most)
			copyTurned(x, d, s, n, cols)
			d, s = d+n*x.dr, s+n*x.sr
		}
		return
	}
	if cols > shortRow {
		for ; rows > 0; rows, d, s = rows-1, d+x.dr, s+x.sr {
			for j := 0; j < cols; j += breath {
				if r.stopped() {
					return
				}
				n := min(breath, cols-j)
				if x.dc == 1 && x.sc == 2 {
					evens(r.table, x.dst[d+j:d+j+n], x.src[s+2*j:s+2*(j+n)-1])
				} else {
					copyStrided(x.dst[d+j*x.dc:], x.dc, x.src, s+j*x.sc, x.sc, n)
				}
			}
		}
		return
	}
	for ; rows > 0 && !r.stopped(); rows -= stripRows {
		n := min(rows, stripRows)
		for j := range cols {
			copyStrided(x.dst[d+j*x.dc:], x.dr, x.src, s+j*x.sc, x.sr, n)
		}
		d, s = d+n*x.dr, s+n*x.sr
	}
}

// copyTurned copies rows of 8 to shortRow elements that lie backwards in src: four at a
// time, the last of which may be copied twice.
func copyTurned[T any](x *loose[T], d, s, rows, cols int) {
	for range rows {
		to, from := x.dst[d:d+cols], x.src[s-cols+1:s+1]
		last, lastFrom := (*[4]T)(to[cols-4:]), (*[4]T)(from)
		for ; len(to) > 4 && len(from) > 4; to, from = to[4:], from[:len(from)-4] {
			v := (*[4]T)(from[len(from)-4:])
			*(*[4]T)(to) = [4]T{v[3], v[2], v[1], v[0]}
		}
		*last = [4]T{lastFrom[3], lastFrom[2], lastFrom[1], lastFrom[0]}
		d, s = d+x.dr, s+x.sr
	}
}

// evens copies every second element of src.
func evens[T any](k *kernel.Table[float32], dst, src []T) {
	switch d := any(dst).(type) {
	case []uint8:
		k.Evens8(d, slice[uint8](bytesOf(src)))
	case []uint16:
		k.Evens16(d, slice[uint16](bytesOf(src)))
	case []uint32:
		k.Evens32(d, slice[uint32](bytesOf(src)))
	case []uint64:
		k.Evens64(d, slice[uint64](bytesOf(src)))
	}
}

// copyStrided copies n elements from element s of src on, which lie apart in both.
func copyStrided[T any](dst []T, dstep int, src []T, s, sstep, n int) {
	if dstep == 1 && sstep == -1 {
		to, from := dst[:n], src[s-n+1:s+1]
		for ; len(to) >= 4; to, from = to[4:], from[:len(from)-4] {
			x := (*[4]T)(from[len(from)-4:])
			*(*[4]T)(to) = [4]T{x[3], x[2], x[1], x[0]}
		}
		for i := range to {
			to[i] = from[len(from)-1-i]
		}
		return
	}
	d := 0
	for range n {
		dst[d] = src[s]
		d, s = d+dstep, s+sstep
	}
}

// shortRow is the longest row that is copied without a call.
const shortRow = 32

// copyShort copies rows of 1 to shortRow elements: some at a time, the last of which may
// be copied twice.
func copyShort[T any](dst []T, d, dr int, src []T, s, sr, rows, cols int) {
	switch {
	case cols >= 8:
		for ; rows > 0; rows, d, s = rows-1, d+dr, s+sr {
			to, from := dst[d:d+cols], src[s:s+cols]
			last, lastFrom := (*[8]T)(to[cols-8:]), (*[8]T)(from[cols-8:])
			for ; len(to) > 8 && len(from) > 8; to, from = to[8:], from[8:] {
				*(*[8]T)(to) = *(*[8]T)(from)
			}
			*last = *lastFrom
		}
	case cols >= 4:
		for ; rows > 0; rows, d, s = rows-1, d+dr, s+sr {
			to, from := dst[d:d+cols], src[s:s+cols]
			*(*[4]T)(to) = *(*[4]T)(from)
			*(*[4]T)(to[cols-4:]) = *(*[4]T)(from[cols-4:])
		}
	case cols >= 2:
		for ; rows > 0; rows, d, s = rows-1, d+dr, s+sr {
			to, from := dst[d:d+cols], src[s:s+cols]
			*(*[2]T)(to) = *(*[2]T)(from)
			to[cols-1] = from[cols-1]
		}
	default:
		copyStrided(dst[d:], dr, src, s, sr, rows)
	}
}

// copyRows copies rows of cols elements from element s of src on to element d of dst on,
// which lie dr apart in dst and sr apart in src. The elements of a row are contiguous in
// src or, with one, the same.
func copyRows[T any](r *run, dst []T, d, dr int, src []T, s, sr, rows, cols int, one bool) {
	if cols <= shortRow && !one {
		size := sizeOf[T]()
		packs := dr == cols && sr >= 0 && cols*size <= kernel.PackMost
		for most := breath / cols; rows > 0 && !r.stopped(); rows -= most {
			n := min(rows, most)
			if packs {
				r.table.Packs.Rows(bytesOf(dst[d:d+n*cols]), bytesOf(src[s:s+(n-1)*sr+cols]), cols*size, sr*size)
			} else {
				copyShort(dst, d, dr, src, s, sr, n, cols)
			}
			d, s = d+n*dr, s+n*sr
		}
		return
	}
	for left := 0; rows > 0; rows, d, s, left = rows-1, d+dr, s+sr, left-cols {
		if left <= 0 {
			if r.stopped() {
				return
			}
			left = breath
		}
		row := dst[d : d+cols]
		switch {
		case cols > breath:
			for len(row) > 0 && !r.stopped() {
				n := min(len(row), breath)
				if one {
					fill(row[:n], src[s])
				} else {
					copy(row[:n], src[s+cols-len(row):])
				}
				row = row[n:]
			}
		case one:
			fill(row, src[s])
		default:
			copy(row, src[s:s+cols])
		}
	}
}

// copyLong copies src to dst, piece by piece.
func copyLong[T any](r *run, dst, src []T) {
	for len(dst) > 0 && !r.stopped() {
		n := copy(dst[:min(len(dst), breath)], src)
		dst, src = dst[n:], src[n:]
	}
}

// clearLong clears dst, piece by piece.
func clearLong[T any](r *run, dst []T) {
	for len(dst) > 0 && !r.stopped() {
		n := min(len(dst), breath)
		clear(dst[:n])
		dst = dst[n:]
	}
}

const (
	// blockSide divides each thread's part of a transposition: a cache line of most
	// types.
	blockSide = 16
	// squareSide is the side of the squares that transpose moves at once, which use all
	// of a cache line before it is evicted.
	squareSide = 64
)

// transpose is dst[i*dr+j] = src[j*sc+i] for i < rows and j < cols.
func transpose[T any](r *run, dst []T, dr int, src []T, sc, rows, cols int) {
	wide := squareSide
	if rows <= shortRow { // a few rows of the same number of elements
		wide = squareSide * squareSide / max(rows, 1) / squareSide * squareSide
	}
	for i := 0; i < rows; i += squareSide {
		for j := 0; j < cols; j += wide {
			if r.stopped() {
				return
			}
			transposeSquare(r, dst[i*dr+j:], dr, src[j*sc+i:], sc, min(squareSide, rows-i), min(wide, cols-j))
		}
	}
}

// transposeSquare is transpose of few elements.
func transposeSquare[T any](r *run, dst []T, dr int, src []T, sc, rows, cols int) {
	switch d := any(dst).(type) {
	case []uint8:
		r.table.Transpose8(d, dr, slice[uint8](bytesOf(src)), sc, cols, rows)
	case []uint16:
		r.table.Transpose16(d, dr, slice[uint16](bytesOf(src)), sc, cols, rows)
	case []uint32:
		r.table.Transpose(slice[float32](bytesOf(d)), dr, slice[float32](bytesOf(src)), sc, cols, rows)
	case []uint64:
		r.table64.Transpose(slice[float64](bytesOf(d)), dr, slice[float64](bytesOf(src)), sc, cols, rows)
	}
}

// turn is dst[i*dr+j] = src[j*sc+i] for i < rows and j < cols, of few numbers.
func turn[T number](r *run, dst []T, dr int, src []T, sc, rows, cols int) {
	switch sizeOf[T]() {
	case 1:
		r.table.Transpose8(slice[uint8](bytesOf(dst)), dr, slice[uint8](bytesOf(src)), sc, cols, rows)
	case 4:
		r.table.Transpose(slice[float32](bytesOf(dst)), dr, slice[float32](bytesOf(src)), sc, cols, rows)
	default:
		r.table64.Transpose(slice[float64](bytesOf(dst)), dr, slice[float64](bytesOf(src)), sc, cols, rows)
	}
}

// plainCopy lowers a cast to the same dtype, which makes a view dense.
func (movesOf[T]) plainCopy(s *compile.Step) func(r *run) error {
	x := &s.In[0]
	c := newCopier(s.Out.Shape, s.Out.Strides, x.Strides)
	return func(r *run) error {
		copyAll(r, &c, slice[T](r.bufs[s.Out.Buf]), 0, slice[T](r.bufs[x.Buf]), x.Off)
		return nil
	}
}

func (movesOf[T]) concat(s *compile.Step) func(r *run) error {
	dim := int(s.Ints[0])
	copies := make([]copier, len(s.In))
	for i, x := range s.In {
		copies[i] = newCopier(x.Shape, s.Out.Strides, x.Strides)
	}
	return func(r *run) error {
		dst := slice[T](r.bufs[s.Out.Buf])
		at := 0
		for i := range s.In {
			x := &s.In[i]
			copyAll(r, &copies[i], dst, at*s.Out.Strides[dim], slice[T](r.bufs[x.Buf]), x.Off)
			at += x.Shape[dim]
		}
		return nil
	}
}

// pad fills the result, and then copies x into it. Of rows that are worth it, it fills
// only what the copy leaves out.
func (movesOf[T]) pad(s *compile.Step) (first, second func(r *run) error) {
	x := &s.In[0]
	off := 0
	for i, st := range s.Out.Strides {
		off += int(s.Ints[2*i]) * st
	}
	border := paddedRows(s)
	c := newCopier(x.Shape, s.Out.Strides, x.Strides)
	second = func(r *run) error {
		copyAll(r, &c, slice[T](r.bufs[s.Out.Buf]), off, slice[T](r.bufs[x.Buf]), x.Off)
		return nil
	}
	return func(r *run) error {
		border(r)
		if r.parts <= 1 {
			return second(r)
		}
		return nil
	}, second
}

// paddedRows returns a function that fills this thread's part of a padded result, at
// least where the operand is not copied.
func paddedRows(s *compile.Step) func(r *run) {
	const worth = 64 // elements of a row
	shape, x, size := s.Out.Shape, s.In[0].Shape, s.Out.DType.Size()
	spreads := func(r *run, from, n int) {
		if n > 0 {
			spreadLong(r, r.bufs[s.Out.Buf][from*size:], s.Out.DType, r.scalars[s.In[1].Scalar], n)
		}
	}
	last := len(shape) - 1
	if last < 0 || x[last] < worth {
		return func(r *run) {
			lo, hi := r.share(shape.Elems(), tile)
			spreads(r, lo, hi-lo)
		}
	}
	cols, before := shape[last], int(s.Ints[2*last])
	return func(r *run) {
		for i, hi := r.share(shape[:last].Elems(), 1); i < hi && !r.stopped(); i++ {
			inside := true
			for d, rest := last-1, i; d >= 0; d-- {
				at := rest%shape[d] - int(s.Ints[2*d])
				inside = inside && at >= 0 && at < x[d]
				rest /= shape[d]
			}
			if inside {
				spreads(r, i*cols, before)
				spreads(r, i*cols+before+x[last], cols-before-x[last])
			} else {
				spreads(r, i*cols, cols)
			}
		}
	}
}

func (movesOf[T]) triangle(s *compile.Step) func(r *run) error {
	sh := s.Out.Shape
	rows, cols := sh[len(sh)-2], sh[len(sh)-1]
	batch := sh[:len(sh)-2].Elems()
	lower := s.Op == tensor.OpTril
	k := int(min(max(s.Ints[0], int64(-rows-1)), int64(cols+1)))
	return func(r *run) error {
		x, y := buf[T](r, &s.In[0]), buf[T](r, &s.Out)
		for row, hi := r.share(batch*rows, 1); row < hi && !r.stopped(); row++ {
			// columns before cut are on the lower side
			cut := row%rows + k
			if lower {
				cut++
			}
			if cut >= cols { // as in all rows of this matrix after it
				end := min(row-row%rows+rows, hi)
				if to := y[row*cols : end*cols]; lower {
					copyLong(r, to, x[row*cols:end*cols])
				} else {
					clearLong(r, to)
				}
				row = end - 1
				continue
			}
			cut = max(cut, 0)
			to, from := y[row*cols:(row+1)*cols], x[row*cols:(row+1)*cols]
			if lower {
				copy(to[:cut], from)
				clear(to[cut:])
			} else {
				clear(to[:cut])
				copy(to[cut:], from[cut:])
			}
		}
		return nil
	}
}

// spreadLong fills n elements of dst with a scalar, converted to t, piece by piece.
func spreadLong(r *run, dst []byte, t tensor.DType, x float64, n int) {
	for i := 0; i < n && !r.stopped(); i += breath {
		spread(at(dst, i*t.Size()), t, x, min(breath, n-i))
	}
}

// ramp is 0, 1, 2 and so on.
var ramp = func() (x [tile]float64) {
	for i := range x {
		x[i] = float64(i)
	}
	return x
}()

// leaf lowers full and arange, whose numbers are computed in float64.
func (lw *lowerer) leaf(s *compile.Step) func(r *run) error {
	n, size := s.Out.Shape.Elems(), s.Out.DType.Size()
	cast := lw.castLoop(tensor.F64, s.Out.DType)
	return func(r *run) error {
		x := r.scalars[s.In[0].Scalar]
		lo, hi := r.share(n, tile)
		if s.Op == tensor.OpFull {
			spreadLong(r, r.bufs[s.Out.Buf][lo*size:], s.Out.DType, x, hi-lo)
			return nil
		}
		step, wide := r.scalars[s.In[1].Scalar], scratchRow[float64](r, 0, tile)
		for ; lo < hi && !r.stopped(); lo += tile {
			m := min(tile, hi-lo)
			// x + i*step, rounded twice
			r.table64.AddS(wide[:m], ramp[:m], float64(lo))
			r.table64.MulS(wide[:m], wide[:m], step)
			r.table64.AddS(wide[:m], wide[:m], x)
			r.in[0] = at(bytesOf(wide), 0)
			cast(at(r.bufs[s.Out.Buf], lo*size), &r.in, nil, m)
		}
		return nil
	}
}

// index reads element i of an index tensor and checks it.
func index(ids []byte, wide bool, i, n int) (int, error) {
	v := indexAt(ids, wide, i)
	if v < 0 || v >= int64(n) {
		return 0, fmt.Errorf("%w: %d at place %d; expected 0 to %d", tensor.ErrIndex, v, i, n-1)
	}
	return int(v), nil
}

// indexFromEnd is index for operations whose negative indices count from the end.
func indexFromEnd(ids []byte, wide bool, i, n int) (int, error) {
	v := indexAt(ids, wide, i)
	if v < -int64(n) || v >= int64(n) {
		return 0, fmt.Errorf("%w: %d at place %d; expected %d to %d", tensor.ErrIndex, v, i, -n, n-1)
	}
	if v < 0 {
		v += int64(n)
	}
	return int(v), nil
}

func indexAt(ids []byte, wide bool, i int) int64 {
	if wide {
		return slice[int64](ids)[i]
	}
	return int64(slice[int32](ids)[i])
}

// ids returns the bytes of an index operand and whether its elements have 8.
func ids(r *run, o *compile.Operand) ([]byte, bool) {
	return r.bufs[o.Buf][min(o.Off*o.DType.Size(), len(r.bufs[o.Buf])):], o.DType == tensor.I64
}

func oneHot(s *compile.Step) func(r *run) error {
	classes := int(s.Ints[1])
	m := s.In[0].Shape.Elems()
	size := s.Out.DType.Size()
	return func(r *run) error {
		out := r.bufs[s.Out.Buf]
		clearLong(r, out)
		id, wide := ids(r, &s.In[0])
		for i := range m {
			if i%breath == 0 && r.stopped() {
				return nil
			}
			k, err := index(id, wide, i, classes)
			if err != nil {
				return err
			}
			spread(at(out, (i*classes+k)*size), s.Out.DType, 1, 1)
		}
		return nil
	}
}
