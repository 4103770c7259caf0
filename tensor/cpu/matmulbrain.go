package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// brainRectangle is rectangle for two matrices of bfloat16 on machines that multiply
// those. See "Products of bfloat16" in docs/decisions.md.
func (lw *lowerer) brainRectangle(s *compile.Step, c compile.Operand) func(r *run, i0, i1, j0, j1 int) {
	brain := lw.table.Brain
	left, right := s.In[0], s.In[1]
	// a has the rows of the left operand, b the columns of the right one
	a, b := lw.matrixOf(left), lw.matrixOf(turned(right))
	k, n := left.Shape[1], right.Shape[1]
	// the choices do not depend on the part, so the bits don't either
	if byTiles(brain, s) {
		return func(r *run, i0, i1, j0, j1 int) {
			m, nc := i1-i0, j1-j0
			r.pack = grow(r, r.pack, brain.TilesScratch(m, nc, k))
			brain.Tiles(m, nc, k, a.halves(r, i0), b.halves(r, j0).T(), slice[float32](r.bufs[c.Buf])[i0*n+j0:], n, r.pack, r.stop)
		}
	}
	few := left.Shape[0] <= kernel.BrainRows && a.cs == 1 && b.rs == 1 && k%2 == 0
	return func(r *run, i0, i1, j0, j1 int) {
		to := slice[float32](r.bufs[c.Buf])
		if few {
			cols := (j1 - j0) / kernel.BrainColumns * kernel.BrainColumns
			x, y := slice[uint16](r.bufs[a.buf]), slice[uint16](r.bufs[b.buf])
			brain.Few(i1-i0, cols, k, x[a.off+i0*a.rs:], a.rs, y[b.off+j0:], b.cs, to[i0*n+j0:], n, r.stop)
			j0 += cols
		}
		pairs := (k + 1) / 2
		for j := j0; j < j1 && !r.stopped(); {
			nc := b.pairStep(j1-j, k)
			y := b.pairs(r, brain, &r.wide[1], j, nc, k)
			y.RS, y.CS = y.CS, y.RS
			for i := i0; i < i1 && !r.stopped(); {
				mc := a.pairStep(i1-i, k)
				x := a.pairs(r, brain, &r.wide[0], i, mc, k)
				r.pack = grow(r, r.pack, kernel.GemmScratch(mc, nc, pairs))
				brain.Gemm(mc, nc, pairs, x, y, to[i*n+j:], n, r.pack, r.stop)
				i += mc
			}
			j += nc
		}
	}
}

// byTiles reports whether brain, which may be nil, computes the product of the first two
// operands of s by tiles.
func byTiles(brain *kernel.BrainProducts, s *compile.Step) bool {
	left, right := s.In[0], s.In[1]
	return brain != nil && brain.Tiles != nil && left.DType == tensor.BF16 && right.DType == tensor.BF16 &&
		brain.TilesPay(left.Shape[0], right.Shape[1], left.Shape[1])
}

// roundedTiles returns the function of step i of a plan if that is a product by tiles
// whose only use is to be rounded to bfloat16, otherwise nil. The function rounds sums as
// tiles finish, and doesn't write them.
func roundedTiles(lw *lowerer, p *compile.Plan, i int) func(r *run) error {
	s := &p.Steps[i]
	k, body := s.In[0].Shape[1], s.Body
	if !byTiles(lw.table.Brain, s) || k > kernel.TilesDepth || len(body) != 2 || body[1].Op != tensor.OpCast || body[1].DType != tensor.BF16 {
		return nil
	}
	sums := s.Outs()[body[0].Out].Buf
	for _, later := range p.Steps[i+1:] {
		if slices.ContainsFunc(later.In, func(o compile.Operand) bool { return o.Scalar < 0 && o.Buf == sums }) {
			return nil
		}
	}
	if slices.ContainsFunc(p.Outputs, func(o compile.OutputOf) bool { return o.Buf == sums }) {
		return nil
	}
	brain, to := lw.table.Brain, *s.Outs()[body[1].Out]
	a, b := lw.matrixOf(s.In[0]), lw.matrixOf(turned(s.In[1]))
	n := to.Shape[1]
	return func(r *run) error {
		i0, i1, j0, j1 := kernel.Split(to.Shape[0], n, r.parts, r.part)
		if i0 < i1 && j0 < j1 {
			m, nc := i1-i0, j1-j0
			r.pack = grow(r, r.pack, brain.TilesScratch(m, nc, k))
			brain.TilesRounded(m, nc, k, a.halves(r, i0), b.halves(r, j0).T(), buf[uint16](r, &to)[i0*n+j0:], n, r.pack, r.stop)
		}
		return nil
	}
}

// halves returns the numbers from row i on.
func (m *matrix) halves(r *run, i int) kernel.Halves {
	return kernel.Halves{Data: slice[uint16](r.bufs[m.buf])[m.off+i*m.rs:], RS: m.rs, CS: m.cs}
}

// pairsInPlace reports whether the numbers of each row of n, of k numbers, are pairs as
// they lie in memory.
func (m *matrix) pairsInPlace(n, k int) bool {
	return m.cs == 1 && k%2 == 0 && (m.rs%2 == 0 || n == 1)
}

// pairStep returns how many of n rows of k numbers are made pairs at a time: all that are
// pairs already.
func (m *matrix) pairStep(n, k int) int {
	if m.pairsInPlace(n, k) {
		return n
	}
	return min(n, max(wideBytes/(2*k)/wideRows*wideRows, wideRows))
}

// pairs returns n rows of k numbers from row i on as pairs: in place, or in *wide. A last
// number alone is one with 0.
func (m *matrix) pairs(r *run, brain *kernel.BrainProducts, wide *[]float32, i, n, k int) kernel.Matrix[float32] {
	if n*k == 0 {
		return kernel.Matrix[float32]{RS: 1, CS: 1}
	}
	first := m.off + i*m.rs
	if m.pairsInPlace(n, k) {
		x := r.bufs[m.buf][2*first:]
		return kernel.Matrix[float32]{Data: elems[float32](at(x, 0), len(x)/4), RS: m.rs / 2, CS: 1}
	}
	src, count := slice[uint16](r.bufs[m.buf]), (k+1)/2
	*wide = grow(r, *wide, n*count)
	dst := (*wide)[:n*count]
	if m.rs == 1 || n == 1 {
		zeros := scratchRow[uint16](r, 0, n)
		clear(zeros)
		for q := range count {
			if q%strip == 0 && r.stopped() {
				break
			}
			x, y := src[first+2*q*m.cs:], zeros
			if 2*q+1 < k {
				y = src[first+(2*q+1)*m.cs:]
			}
			brain.Pair(dst[q*n:(q+1)*n], x, y)
		}
		return kernel.Matrix[float32]{Data: dst, RS: 1, CS: n}
	}
	for j := range n {
		row := dst[j*count : (j+1)*count]
		for q := range row {
			if q%breath == 0 && r.stopped() {
				break
			}
			x, y := first+j*m.rs+2*q*m.cs, uint16(0)
			if 2*q+1 < k {
				y = src[x+m.cs]
			}
			row[q] = kernel.PairOf(src[x], y)
		}
	}
	return kernel.Matrix[float32]{Data: dst, RS: count, CS: 1}
}
