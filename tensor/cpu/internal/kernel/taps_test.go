package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestGemmTaps wants products whose rows of b lie anywhere to agree with the loop that
// they stand for, and to write only c.
func TestGemmTaps(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for range 400 {
			m, n, depth := 1+r.IntN(20), 1+r.IntN(70), r.IntN(40)
			if r.IntN(4) == 0 {
				m, n = 1, 1+r.IntN(400)
			}
			ldc := n + r.IntN(5)
			a := newFenced(m*depth, 3, r.Float32)
			am := Matrix[float32]{a.v, depth, 1}
			if r.IntN(2) == 0 {
				am = Matrix[float32]{a.v, 1, m}
			}
			b := newFenced(200+n+TapsPad, 1, r.Float32)
			at := make([]int, depth)
			for i := range at {
				at[i] = r.IntN(200)
			}
			c := newFenced((m-1)*ldc+n, 5, r.Float32)
			before := clone(c.v)
			add := r.IntN(2) == 0
			k.GemmTaps(m, n, depth, am, b.v, at, add, c.v, ldc)
			what := fmt.Sprintf("%dx%dx%d", m, n, depth)
			c.intact(t, what)
			for i := range m {
				for j := range ldc {
					if i*ldc+j >= len(c.v) {
						break
					}
					want := float64(before[i*ldc+j])
					if j < n {
						if !add {
							want = 0
						}
						for q, off := range at {
							want += float64(a.v[i*am.RS+q*am.CS]) * float64(b.v[off+j])
						}
					}
					scalarNear(t, fmt.Sprintf("%s at %d, %d", what, i, j), c.v[i*ldc+j], want, 1e-5)
				}
			}
		}
	})
}

// TestWindows wants the products of windows to agree with the loop that they stand for,
// and to write only c.
func TestWindows(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for range 200 {
			p := Plane{Rows: 1 + r.IntN(9), Cols: 1 + r.IntN(20), ColStep: 1 + r.IntN(2)}
			p.LineStep = p.Cols*p.ColStep + r.IntN(6)
			p.RowStep = p.LineStep * (1 + r.IntN(2))
			n, f := WindowUnit*(1+r.IntN(4)), k.Windows
			if r.IntN(2) == 0 {
				n, p.ColStep = 1, 1
				f = func(p Plane, a, b []float32, _ int, c []float32) { k.WindowDots(p, a, b, c) }
			}
			a := newFenced((p.Rows-1)*p.RowStep+(p.Cols-1)*p.ColStep+2*p.LineStep+3, r.IntN(16), r.Float32)
			b := newFenced(p.Rows*p.Cols*n, r.IntN(16), r.Float32)
			c := newFenced(9*n, r.IntN(16), r.Float32)
			before := clone(c.v)
			f(p, a.v, b.v, n, c.v)
			what := fmt.Sprintf("%+v of %d", p, n)
			for _, f := range []fenced{a, b, c} {
				f.intact(t, what)
			}
			for i := range 9 {
				for o := range n {
					want := float64(before[i*n+o])
					for y := range p.Rows {
						for x := range p.Cols {
							want += float64(a.v[y*p.RowStep+x*p.ColStep+i/3*p.LineStep+i%3]) * float64(b.v[(y*p.Cols+x)*n+o])
						}
					}
					scalarNear(t, fmt.Sprintf("%s: weight %d of %d", what, i, o), c.v[i*n+o], want, 1e-5)
				}
			}
		}
	})
}
