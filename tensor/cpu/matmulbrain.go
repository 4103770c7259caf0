package cpu

import (
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
	// the choice does not depend on the part, so the bits don't either
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
