package cuda

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// exchange is a copy that exchanges two dims: the one along which the source lies in one
// piece, its columns, and the one along which the target does, its rows. Strides are in
// elements.
type exchange struct {
	rows, columns int
	row, toRow    int // from one row of the source, and of the target, to the next
	dims          [exchangeDims]int
	from, to      [exchangeDims]int // the strides of dims
}

// exchangeDims is the number of other dims that the kernels of transposes have.
const exchangeDims = 3

// minExchange is the fewest rows and columns of an exchange. A generated kernel reads
// less of them from sectors that it has read before.
const minExchange = 8

// exchangeOf returns the exchange that copies from to to, and whether there is one.
func exchangeOf(to, from compile.Operand) (x exchange, ok bool) {
	if from.Scalar >= 0 {
		return x, false
	}
	var dims, in, out []int
	strides := from.Broadcast(to.Shape)
	for i, n := range to.Shape {
		last := len(dims) - 1
		switch {
		case n == 1:
		case last >= 0 && in[last] == strides[i]*n && out[last] == to.Strides[i]*n:
			dims[last], in[last], out[last] = dims[last]*n, strides[i], to.Strides[i]
		default:
			dims, in, out = append(dims, n), append(in, strides[i]), append(out, to.Strides[i])
		}
	}
	others := exchangeDims
	for i := len(dims) - 1; i >= 0; i-- {
		n := dims[i]
		switch {
		case in[i] == 1 && out[i] != 1 && x.columns == 0:
			x.columns, x.toRow = n, out[i]
		case out[i] == 1 && in[i] != 1 && in[i] != 0 && x.rows == 0:
			x.rows, x.row = n, in[i]
		case others == 0:
			return x, false
		default:
			others--
			x.dims[others], x.from[others], x.to[others] = n, in[i], out[i]
		}
	}
	for i := range others {
		x.dims[i] = 1
	}
	return x, x.rows >= minExchange && x.columns >= minExchange
}

// sector is the bytes that memory is read and written by.
const sector = 32

// exchangeTile is the number of rows and columns that a block of transpose moves.
const exchangeTile = 32

// exchangeRing is the columns in shared memory where a block of transpose_any does not
// have whole rows there.
const exchangeRing = 64

// exchangeSpace returns the bytes of shared memory that transpose_any has for elements of
// so many bytes: more for bytes, of which a sector holds the most.
func exchangeSpace(size int) int {
	if size == 1 {
		return 48 << 10
	}
	return 34 << 10
}

// maxLost is the part of the sectors that may be read and written twice where that makes
// more blocks.
const maxLost = 0.08

// cut is how the blocks of an exchange divide its matrices.
type cut struct {
	h, w   int  // rows and columns of a block
	any    bool // of the kernel for rows that begin anywhere within a sector
	pitch  int  // of that one, elements from one row of its shared memory to the next
	flat   bool // it reads whole rows as one
	blocks int
	lost   float64 // the sectors that are touched twice, by all
}

// ceilDiv returns how many pieces of at most size make up n.
func ceilDiv(n, size int) int { return (n + size - 1) / size }

// pitchOf returns the least pitch for so many columns of size bytes with which a column
// has no conflicts of banks: an odd number of words, or of elements of two words.
func pitchOf(columns, size int) int {
	for size < 8 && columns*size%8 != 4 || size == 8 && columns%2 == 0 {
		columns++
	}
	return columns
}

// begins reports whether all rows of an operand begin with a sector.
func (x *exchange) begins(o compile.Operand, row int, strides [exchangeDims]int) bool {
	all := o.Off | row
	for i, n := range x.dims {
		if n > 1 {
			all |= strides[i]
		}
	}
	return all*o.DType.Size()%sector == 0
}

// cut chooses the kernel and its blocks: of those that lose little the most blocks, which
// keep more of a GPU busy, else the least loss. A piece of a row that may begin anywhere
// takes one more sector, except in one of the places where it may begin. Rows that follow
// one another in memory lose nothing where a block has them whole.
func (x *exchange) cut(to, from compile.Operand) (best cut) {
	size := to.DType.Size()
	in, out := x.begins(from, x.row, x.from), x.begins(to, x.toRow, x.to)
	offer := func(c cut) {
		across, down := ceilDiv(x.columns, c.w), ceilDiv(x.rows, c.h)
		if !in && !c.flat {
			c.lost += float64(across) / float64(x.columns)
		}
		whole := down == 1 && (out || c.any && x.toRow == x.rows)
		if !whole && (!out || c.h*size%sector != 0) {
			c.lost += float64(down) / float64(x.rows)
		}
		c.lost *= float64(sector/size-1) / 2
		c.blocks = across * down * x.dims[0] * x.dims[1] * x.dims[2]
		good, was := c.lost <= maxLost, best.lost <= maxLost
		switch {
		case best.blocks == 0, good && !was, good && was && c.blocks > best.blocks, !good && !was && c.lost < best.lost:
			best = c
		}
	}
	offer(cut{h: exchangeTile, w: exchangeTile})
	rows := func(pitch int, offer func(h int)) {
		most := max(exchangeSpace(size)/size/pitch, 1)
		for n := ceilDiv(x.rows, most); ; n *= 2 {
			h := ceilDiv(x.rows, n)
			if up := ceilDiv(h, exchangeTile) * exchangeTile; up <= most {
				h = up // pieces of aligned rows are aligned
			}
			offer(h)
			if h <= exchangeTile {
				return
			}
		}
	}
	if pitch := pitchOf(x.columns, size); x.row == x.columns && pitch*size*minExchange <= exchangeSpace(size) {
		rows(pitch, func(h int) { offer(cut{h: h, w: x.columns, any: true, pitch: pitch, flat: true}) })
	}
	pitch := pitchOf(exchangeRing, size)
	rows(pitch, func(h int) {
		for n := 1; ; n *= 2 {
			w := ceilDiv(ceilDiv(x.columns, n), exchangeTile) * exchangeTile
			offer(cut{h: h, w: w, any: true, pitch: pitch})
			if w == exchangeTile {
				return
			}
		}
	})
	return best
}

// add adds the kernel of the exchange to k.
func (x *exchange) add(k *kernel, to, from compile.Operand) {
	args := []any{from, to, uint32(x.rows), uint32(x.columns), uint32(x.dims[1]), uint32(x.dims[2]), uint64(x.row)}
	for _, n := range x.from {
		args = append(args, uint64(n))
	}
	args = append(args, uint64(x.toRow))
	for _, n := range x.to {
		args = append(args, uint64(n))
	}
	c, name := x.cut(to, from), "transpose_b"
	if c.any {
		flat := uint32(0)
		if c.flat {
			flat = 1
		}
		name, args = "transpose_any_b", append(args, uint32(c.h), uint32(c.w), uint32(c.pitch), flat)
	}
	k.call("move", fmt.Sprint(name, 8*to.DType.Size()), to.Shape.Elems(), c.blocks, 1, 1, args...)
}

// minStraight is the fewest elements of an operand that straight copies. Of less the
// sectors cost less than another launch.
const minStraight = 1 << 14

// straight returns an elementwise step whose operands lie in memory in the order of its
// result: those of s, and copies of those that lie across the result, which it adds to k.
// A generated kernel would read a sector for each of their elements.
func straight(k *kernel, s *compile.Step) *compile.Step {
	out := *s
	out.In = slices.Clone(s.In)
	for i, o := range s.In {
		if o.Scalar >= 0 || o.Shape.Elems() < minStraight {
			continue
		}
		if at := slices.IndexFunc(s.In[:i], func(b compile.Operand) bool { return sameMemory(o, b) }); at >= 0 {
			out.In[i] = out.In[at]
			continue
		}
		dense := o
		dense.Strides, dense.Off = o.Shape.Strides(), 0
		if _, ok := exchangeOf(dense, o); ok {
			out.In[i] = k.dense(o, o.DType)
		}
	}
	return &out
}

// sameMemory reports whether two tensors are the same elements in the same order.
func sameMemory(a, b compile.Operand) bool {
	return a.Scalar < 0 && b.Scalar < 0 && a.Buf == b.Buf && a.Off == b.Off && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Strides, b.Strides)
}
