package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// epilogue lowers a matrix product and the elementwise operations behind it. A part that
// has whole rows of the product runs the tile program over them at once, while they are
// in its core's cache. Parts that have columns, as is best for most products, leave the
// operations to a second round, which shares the rows: operations on short pieces of rows
// take longer to start than to compute, and blocks of columns would read the left operand
// again for each block.
func (lw *lowerer) epilogue(s *compile.Step) (first, second func(r *run) error) {
	x := *s.Outs()[s.Body[0].Out] // where the product lies
	p := lw.tileProgram(behind(s, x))
	product := lw.rectangle(s, x)
	first = func(r *run) error {
		i0, i1, j0, j1 := kernel.Split(x.Shape[0], x.Shape[1], r.parts, r.part)
		if i0 >= i1 || j0 >= j1 {
			return nil
		}
		product(r, i0, i1, j0, j1)
		if wholeRows(s, r.parts) {
			p.prepare(r)
			p.block(r, i0, i1)
		}
		return nil
	}
	return first, p.run
}

// wholeRows reports whether parts of the product of s have them.
func wholeRows(s *compile.Step, parts int) bool {
	n := s.In[1].Shape[1]
	_, _, j0, j1 := kernel.Split(s.In[0].Shape[0], n, parts, 0)
	return j0 == 0 && j1 == n
}

// behind returns the operations behind the product of s, which lies at x, as a step of
// tiles, with its nest: rows and columns.
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

// block runs the program over rows i0 to i1 of a nest of two dims. r is prepared.
func (p *tileProgram) block(r *run, i0, i1 int) {
	odo := odometer{n: &p.n, inside: 1}
	n := p.n.dims[1]
	for i := i0; i < i1 && !r.stopped(); i += p.band {
		for j := 0; j < n; j += p.wide {
			p.runBand(r, &odo, i, min(p.band, i1-i), j, min(p.wide, n-j))
		}
	}
}

// epilogueWork returns the work of a product with operations behind it, in the measure of
// workOf.
func epilogueWork(brain *kernel.BrainProducts, s *compile.Step) int {
	return productWork(brain, s) + (len(s.Body)-1)*s.Out.Shape.Elems()
}
