package cpu

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// tileProgram is several elementwise operations that run tile by tile: for each tile of
// up to 1024 elements, 8192 of bytes, one kernel call an operation. Values between
// operations lie in scratch that stays in the first-level cache. Results go to memory at
// once, and operations that follow read them there.
//
// A tile is part of a row of the nest or, where rows are short, several rows. An operand
// that isn't contiguous over a tile is copied into scratch first; one that is the same
// for every tile, once a run. A program that is one chain and needs no scratch goes by
// stretches of tiles instead.
type tileProgram struct {
	n      nest // of the first output, then the inputs; tiles walk its last two dims
	size   int  // the most elements of a tile
	rows   int  // of a tile
	inputs []tileInput
	outs   []compile.Operand
	body   []tileOp
	words  int // of scratch, in 8 bytes

	fold *tileFold // of the last instruction's result; nil: none

	runs    []chain
	scalars int  // of all chains
	steps   int  // of the longest
	far     bool // up to a stretch at a time

	turning    bool // some inputs are transposed
	band, wide int  // rows and columns for which they are copied at once
}

type tileInput struct {
	o       compile.Operand
	width   int
	scratch int  // place of its copy, in words; -1: contiguous, needs none
	fixed   bool // the same for every tile
	turned  bool // transposed, copied for a band at a time
	row     bool // one number for a row, which operations read in place
}

// tileOp is an instruction. Its pointers are numbered: inputs, one for each instruction's
// result, then the numbers in memory of inputs that have one for a row.
type tileOp struct {
	f      loop
	scalar func(dst, x []float32, s float32) // in place of f: a tensor and a scalar
	s      int                               // that scalar
	in     []int
	widths []int // of an element of each
	own    []int // its own scalars
	spread []spreadScalar
	dst    int // number of the result's pointer
	out    int // the output that it is, -1: scratch
	place  int // of the result in scratch
	width  int

	byRow [2]loop // in place of f where the first operand, or the second, is one number

	chained       bool // the Chain kernel can do it
	code, swapped int  // of that
	neg           bool // of the scalar

	widens, narrows int // a conversion from or to 16 bits, by halfForms
}

// spreadScalar is a scalar that stands for a tensor.
type spreadScalar struct {
	arg, scalar, place int
	t                  tensor.DType
}

func (lw *lowerer) tiles(s *compile.Step) func(r *run) error {
	return lw.tileProgram(s, newNestOf(s, s.Out.Shape, s.Out.Strides), nil).run
}

// newNestOf returns the nest of a step over shape. out are the strides of the output,
// which come first.
func newNestOf(s *compile.Step, shape tensor.Shape, out []int) nest {
	return newNest(shape, stridesOf(s, out)...)
}

// stridesOf returns those of the output, and of every tensor among the operands.
func stridesOf(s *compile.Step, out []int) [][]int {
	strides := [][]int{out}
	for _, o := range s.In {
		if o.Scalar < 0 {
			strides = append(strides, o.Strides)
		}
	}
	return strides
}

// tileProgram lowers step s over nest n of its output and its tensors. With a fold, the
// fold's result is the only output.
func (lw *lowerer) tileProgram(s *compile.Step, n nest, fold *tileFold) *tileProgram {
	p := &tileProgram{n: n, fold: fold, size: tileSize(s)}
	number := make([]int, len(s.In)) // of the operand among inputs
	for i, o := range s.In {
		if o.Scalar < 0 {
			number[i] = len(p.inputs)
			p.inputs = append(p.inputs, tileInput{o: o, width: o.DType.Size(), scratch: -1})
		}
	}
	p.shape()
	for _, o := range s.Outs() {
		p.outs = append(p.outs, *o)
	}
	for k := range p.inputs {
		p.input(k)
	}
	p.bands()
	for i := range s.Body {
		p.add(lw, s, i, number)
	}
	p.reuse()
	p.rowInputs()
	p.chains(lw.table.ChainBlock)
	return p
}

// tileSize returns the most elements of a tile of s: tile, or as many bytes where all
// elements have one.
func tileSize(s *compile.Step) int {
	for _, o := range s.In {
		if o.Scalar < 0 && o.DType.Size() > 1 {
			return tile
		}
	}
	for _, in := range s.Body {
		if in.DType.Size() > 1 {
			return tile
		}
	}
	return 8 * tile
}

// room reserves a tile of elements of the given size, and returns where it begins, in
// words.
func (p *tileProgram) room(width int) int {
	at := p.words
	p.words += p.size * width / 8
	return at
}

// shape sets how many rows make a tile. A nest of one dim is one row.
func (p *tileProgram) shape() {
	n := &p.n
	n.rowAlone()
	p.rows = 1
	if n.inner() <= p.size/2 {
		p.rows = min(p.size/n.inner(), n.dims[len(n.dims)-2])
	}
}

// input sets how input k is read.
func (p *tileProgram) input(k int) {
	in := &p.inputs[k]
	st := p.n.strides[k+1]
	last := len(st) - 1
	if (st[last] == 1 || p.n.inner() == 1) && (p.rows == 1 || st[last-1] == p.n.inner()) {
		return
	}
	if in.turned = p.turns(k); in.turned {
		return
	}
	in.scratch = p.room(in.width)
	in.fixed = p.n.inner() <= p.size
	for _, s := range st[:last] {
		in.fixed = in.fixed && s == 0
	}
}

// add appends instruction i of step s.
func (p *tileProgram) add(lw *lowerer, s *compile.Step, i int, number []int) {
	b := &s.Body[i]
	info := b.Op.Info()
	tensors := b.In[:len(b.In)-len(info.Scalars)]
	o := tileOp{dst: len(p.inputs) + i, out: b.Out, place: -1, width: b.DType.Size(), s: -1}
	t := b.DType // of the operands
	like := compile.Step{Op: b.Op, Ints: b.Ints, Out: compile.Operand{DType: b.DType}}
	scalars := 0
	for _, k := range tensors {
		x := compile.Operand{Scalar: -1}
		switch {
		case k < 0:
			x.DType = s.Body[-1-k].DType
		default:
			x = s.In[k]
		}
		if x.Scalar < 0 {
			t = x.DType
		} else {
			scalars++
		}
		like.In = append(like.In, x)
	}
	if scalars == 1 && len(tensors) == 2 && t == tensor.F32 && b.DType == tensor.F32 {
		left := like.In[0].Scalar >= 0
		if o.scalar = lw.scalarLoop(b.Op, left); o.scalar != nil {
			x, c := 0, 1
			if left {
				x, c = 1, 0
			}
			o.s, tensors = like.In[c].Scalar, tensors[x:x+1]
		}
	}
	if o.scalar == nil {
		if o.f = lw.loopFor(&like, t); o.f == nil {
			// the op table and inference exclude it
			panic(fmt.Sprintf("cpu: no loop for %v of %v", b.Op, t))
		}
		o.byRow = rowLoops(lw.table64, lw.plain, b.Op, t)
	}
	for a, k := range tensors {
		width := t.Size()
		switch {
		case k < 0:
			width = s.Body[-1-k].DType.Size()
		case s.In[k].Scalar < 0:
			width = s.In[k].DType.Size()
		}
		o.widths = append(o.widths, width)
		switch {
		case k < 0:
			o.in = append(o.in, len(p.inputs)-1-k)
		case s.In[k].Scalar >= 0:
			o.in = append(o.in, -1)
			o.spread = append(o.spread, spreadScalar{a, s.In[k].Scalar, p.room(t.Size()), t})
		default:
			o.in = append(o.in, number[k])
		}
	}
	if b.Op == tensor.OpCast {
		o.setHalf(t, b.DType)
	} else if divides := b.Op == tensor.OpDiv && len(o.spread) == 1 && o.spread[0].arg == 1; t == tensor.F32 && b.DType == tensor.F32 && (len(o.spread) == 0 || divides) {
		codes, chained := chainCodes[b.Op]
		o.code, o.swapped, o.chained = codes[0], codes[1], chained
		if divides {
			o.code, o.s = kernel.ChainDivS, o.spread[0].scalar
		}
		if o.chained && o.scalar != nil {
			// as scalarLoop; the tensor is the accumulator either way
			switch left := like.In[0].Scalar >= 0; {
			case b.Op == tensor.OpSub && !left:
				o.code, o.neg = kernel.ChainAdd, true
			case b.Op == tensor.OpSub || b.Op == tensor.OpDiv:
				o.code = o.swapped
			}
			o.code++ // with a scalar
		}
	}
	for _, k := range b.In[len(b.In)-len(info.Scalars):] {
		o.own = append(o.own, s.In[k].Scalar)
	}
	p.body = append(p.body, o)
}

// reuse gives scratch to results that don't go to memory. Scratch whose value is not read
// any more is used again.
func (p *tileProgram) reuse() {
	last := make([]int, len(p.inputs)+len(p.body)) // reader of each pointer
	for i, o := range p.body {
		for _, k := range o.in {
			if k >= 0 {
				last[k] = i
			}
		}
	}
	free := map[int][]int{} // places, by width
	for i := range p.body {
		o := &p.body[i]
		for _, k := range o.in { // dst may be an operand
			if j := k - len(p.inputs); j >= 0 && last[k] == i && p.body[j].out < 0 && p.body[j].place >= 0 {
				x := &p.body[j]
				free[x.width] = append(free[x.width], x.place)
				last[k] = -1 // once
			}
		}
		if o.out >= 0 {
			continue
		}
		if f := free[o.width]; len(f) > 0 {
			o.place, free[o.width] = f[len(f)-1], f[:len(f)-1]
		} else {
			o.place = p.room(o.width)
		}
	}
}

func (p *tileProgram) run(r *run) error {
	n := &p.n
	last := len(n.dims) - 1
	odo := odometer{n: n, inside: 1}
	r0, r1, c0, c1 := 0, n.dims[last-1], 0, n.dims[last]
	switch {
	case last > 1:
		var any bool
		if odo, any = n.share(r); !any {
			return nil
		}
		odo.inside = 1
	case r1 == 1:
		c0, c1 = r.share(c1, p.size)
	default:
		r0, r1 = r.share(r1, p.band)
	}
	if r0 >= r1 || c0 >= c1 {
		return nil
	}
	p.prepare(r)
	for {
		for i := r0; i < r1; i += p.band {
			for j, m := c0, 0; j < c1; j += m {
				if r.stopped() {
					return nil
				}
				m = p.columns(c1 - j)
				p.runBand(r, &odo, i, min(p.band, r1-i), j, m)
			}
		}
		if !odo.next() {
			break
		}
	}
	if p.fold != nil {
		p.fold.end(r)
	}
	return nil
}

// scratch returns a place as a pointer.
func (r *run) scratch(place int) pointer { return pointer(&r.words[place]) }

// prepare makes r's scratch large enough and fills the operands that are the same for
// every tile.
func (p *tileProgram) prepare(r *run) {
	r.words = grow(r, r.words, p.words)
	r.ptrs = grow(r, r.ptrs, 2*len(p.inputs)+len(p.body))
	r.chain, r.chainScalars = grow(r, r.chain, p.steps), grow(r, r.chainScalars, p.scalars)
	r.foldAt = -1
	n := &p.n
	last := len(n.dims) - 1
	for k := range p.inputs {
		in := &p.inputs[k]
		if in.fixed {
			st := n.strides[k+1]
			gatherRows(r.table, r.scratch(in.scratch), at(r.bufs[in.o.Buf], in.o.Off*in.width), in.width, st[last-1], st[last], p.rows, n.dims[last])
			r.ptrs[k] = r.scratch(in.scratch)
		}
	}
	for i := range p.body {
		o := &p.body[i]
		for _, s := range o.spread {
			spread(r.scratch(s.place), s.t, r.scalars[s.scalar], min(p.size, p.rows*n.dims[last]))
		}
		if o.out < 0 {
			r.ptrs[o.dst] = r.scratch(o.place)
		}
	}
	for i := range p.runs {
		p.runs[i].prepare(r)
	}
}

// tile computes rows from row i on, m columns from j on: a tile, or if the program goes
// by stretches, several of a row.
func (p *tileProgram) tile(r *run, odo *odometer, i, rows, j, m int) {
	n := &p.n
	last := len(n.dims) - 1
	for k := range p.inputs {
		in := &p.inputs[k]
		if in.fixed {
			continue
		}
		if in.turned {
			r.ptrs[k] = in.placeOf(r, i, j)
			continue
		}
		st := n.strides[k+1]
		src := at(r.bufs[in.o.Buf], (in.o.Off+odo.off[k+1]+i*st[last-1]+j*st[last])*in.width)
		switch {
		case in.row:
			r.ptrs[p.inPlace(k)] = src
			src = r.scratch(in.scratch)
		case in.scratch >= 0:
			gatherRows(r.table, r.scratch(in.scratch), src, in.width, st[last-1], st[last], rows, m)
			src = r.scratch(in.scratch)
		}
		r.ptrs[k] = src
	}
	first := odo.off[0] + i*n.strides[0][last-1] + j
	for b := range p.body {
		if o := &p.body[b]; o.out >= 0 {
			r.ptrs[o.dst] = at(r.bufs[p.outs[o.out].Buf], first*o.width)
		}
	}
	runs := p.runs
	for b, count := 0, rows*m; b < len(p.body); b++ {
		if len(runs) > 0 && runs[0].from == b {
			done := runs[0].run(r, count)
			if done < count {
				p.fillRows(r, done, count-done)
			}
			for ; done < count && b < runs[0].to; b++ {
				p.body[b].do(r, done, count-done)
			}
			b = runs[0].to - 1
			runs = runs[1:]
			continue
		}
		p.body[b].do(r, 0, count)
	}
	if p.fold != nil {
		p.fold.tile(r, r.ptrs[p.body[len(p.body)-1].dst], odo.off[0]+i*n.strides[0][last-1], n.strides[0][last-1], rows, m)
	}
}

// do computes n elements from element first of the tile on.
func (o *tileOp) do(r *run, first, n int) {
	dst := shift(r.ptrs[o.dst], first*o.width)
	if o.scalar != nil {
		o.scalar(elems[float32](dst, n), elems[float32](shift(r.ptrs[o.in[0]], 4*first), n), float32(r.scalars[o.s]))
		return
	}
	for a, k := range o.in {
		if k >= 0 {
			r.in[a] = shift(r.ptrs[k], first*o.widths[a])
		}
	}
	for _, s := range o.spread {
		r.in[s.arg] = r.scratch(s.place)
	}
	for a, k := range o.own {
		r.own[a] = r.scalars[k]
	}
	o.f(dst, &r.in, r.own[:len(o.own)], n)
}

// gatherRows copies rows of m elements that lie rs apart, their elements cs apart, one
// after another.
func gatherRows(t *kernel.Table[float32], dst, src pointer, width, rs, cs, rows, m int) {
	if gatherPacked(t, dst, src, width, rs, cs, rows, m) {
		return
	}
	switch width {
	case 2:
		gatherRowsOf[uint16](dst, src, rs, cs, rows, m)
	case 4:
		if cs != 0 {
			gatherRowsOf[uint32](dst, src, rs, cs, rows, m)
			return
		}
		for i := range rows {
			t.Fill(elems[float32](shift(dst, 4*i*m), m), *(*float32)(shift(src, 4*i*rs)))
		}
	case 8:
		gatherRowsOf[uint64](dst, src, rs, cs, rows, m)
	default:
		gatherRowsOf[uint8](dst, src, rs, cs, rows, m)
	}
}

func gatherRowsOf[T any](dst, src pointer, rs, cs, rows, m int) {
	size := sizeOf[T]()
	for i := range rows {
		d, s := shift(dst, i*m*size), shift(src, i*rs*size)
		switch cs {
		case 1:
			copy(elems[T](d, m), elems[T](s, m))
		default:
			gatherAs[T](d, s, cs, m)
		}
	}
}

// gatherPacked is gatherRows of short rows, whose elements are contiguous or the same,
// and of every second element. It returns false, and copies nothing, for others.
func gatherPacked(t *kernel.Table[float32], dst, src pointer, width, rs, cs, rows, m int) bool {
	short := rs >= 0 && m*width <= kernel.PackMost
	switch {
	case cs == 1 && short:
		t.Packs.Rows(elems[uint8](dst, rows*m*width), elems[uint8](src, ((rows-1)*rs+m)*width), m*width, rs*width)
	case cs == 0 && short:
		switch n := (rows-1)*rs + 1; width {
		case 1:
			t.Spread8(elems[uint8](dst, rows*m), elems[uint8](src, n), m, rs)
		case 2:
			t.Spread16(elems[uint16](dst, rows*m), elems[uint16](src, n), m, rs)
		case 4:
			t.Spread32(elems[uint32](dst, rows*m), elems[uint32](src, n), m, rs)
		default:
			t.Spread64(elems[uint64](dst, rows*m), elems[uint64](src, n), m, rs)
		}
	case cs == 2:
		for i := range rows {
			d, s := shift(dst, i*m*width), shift(src, i*rs*width)
			switch width {
			case 1:
				t.Evens8(elems[uint8](d, m), elems[uint8](s, 2*m-1))
			case 2:
				t.Evens16(elems[uint16](d, m), elems[uint16](s, 2*m-1))
			case 4:
				t.Evens32(elems[uint32](d, m), elems[uint32](s, 2*m-1))
			default:
				t.Evens64(elems[uint64](d, m), elems[uint64](s, 2*m-1))
			}
		}
	default:
		return false
	}
	return true
}
