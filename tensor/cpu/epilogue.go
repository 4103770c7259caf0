package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/tensor/compile"
	"github.com/ringside-go/ringside/tensor/cpu/kernel"
)

const (
	// blockBytes is how much of a product is made before the operations behind it run over it: what stays in the second
	// level cache beside the operands.
	blockBytes = 512 << 10
	// blockCols is the fewest columns of such a block, for which every row of the left operand is read once more.
	blockCols = 256
)

// epilogue lowers a matrix product and the elementwise operations behind it. Each part makes its rectangle of the
// product, in blocks of columns, and runs the tile program over every block when it is done.
func (d *Device) epilogue(s *compile.Step) func(r *run) error {
	a, b := s.In[0], s.In[1]
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	x := *s.Outs()[s.Body[0].Out] // where the product lies
	p := d.tileProgram(behind(s, x))
	return func(r *run) error {
		i0, i1, j0, j1 := kernel.Split(m, n, r.parts, r.part)
		if i0 >= i1 || j0 >= j1 {
			return nil
		}
		left, right, c := slice[float32](r.bufs[a.Buf]), slice[float32](r.bufs[b.Buf]), slice[float32](r.bufs[x.Buf])
		p.prepare(r)
		width := blockWidth(i1-i0, j1-j0)
		for j := j0; j < j1; j += width {
			end := min(j+width, j1)
			d.gemm32(r, i1-i0, end-j, k,
				kernel.Matrix[float32]{Data: left[a.Off+i0*a.Strides[0]:], RS: a.Strides[0], CS: a.Strides[1]},
				kernel.Matrix[float32]{Data: right[b.Off+j*b.Strides[1]:], RS: b.Strides[0], CS: b.Strides[1]},
				false, c[i0*n+j:], n)
			p.block(r, i0, i1, j, end)
		}
		return nil
	}
}

// blockWidth is how many columns of m rows and n columns are made at a time: of about the same number each.
func blockWidth(m, n int) int {
	blocks := max(min(4*m*n/blockBytes, n/blockCols), 1)
	const panel = 32 // of the product's kernels
	return ((n+blocks-1)/blocks + panel - 1) / panel * panel
}

// behind is what comes after the product of s, which lies at x, as a step of tiles, with its nest: rows and columns.
func behind(s *compile.Step, x compile.Operand) (*compile.Step, nest, *tileFold) {
	t := &compile.Step{Instr: s.Instr, Op: s.Op, Fused: compile.Tiles, In: append([]compile.Operand{x}, s.In[2:]...), Out: s.Out, Also: s.Also}
	for _, in := range s.Body[1:] {
		in.In = slices.Clone(in.In)
		for j, i := range in.In {
			switch {
			case i == -1:
				in.In[j] = 0
			case i < 0:
				in.In[j] = i + 1
			default:
				in.In[j] = i - 1
			}
		}
		t.Body = append(t.Body, in)
	}
	return t, nest{dims: []int(slices.Clone(x.Shape)), strides: stridesOf(t, x.Strides)}, nil
}

// block runs the program over rows i0 to i1 and columns j0 to j1 of a nest of two dims. r is prepared.
func (p *tileProgram) block(r *run, i0, i1, j0, j1 int) {
	odo := odometer{n: &p.n, done: 1}
	rows := p.rows
	if j1-j0 < p.n.dims[1] {
		rows = 1 // several don't lie one after another
	}
	for i := i0; i < i1; i += rows {
		for j := j0; j < j1; j += tile {
			p.tile(r, &odo, i, min(rows, i1-i), j, min(tile, j1-j))
		}
	}
}

// productCost is the work of a product with operations behind it, in the measure of shareable.
func productCost(s *compile.Step) int {
	return bounded(s.Out.Shape.Elems(), s.In[0].Shape[1])/25 + (len(s.Body)-1)*s.Out.Shape.Elems()
}
