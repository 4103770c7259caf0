package cpu

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// prodGradRow computes rows of prodGrad by kernels.
type prodGradRow[T float] struct {
	k      *kernel.Table[float64]
	mul    kernel.Fold[float64]
	double func(dst []float64, x []T)
	single func(dst []T, x []float64)
}

// of stores the gradient of a row and returns true if the product of its elements is
// finite and not 0.
func (p *prodGradRow[T]) of(r *run, out, x []T, dy float64) bool {
	one, wide := scratchRow[float64](r, 2, 1), scratchRow[float64](r, 3, min(foldRow, len(x)))
	prod := 1.0
	for at := 0; at < len(x); at += foldRow {
		w := wide[:min(foldRow, len(x)-at)]
		p.double(w, x[at:])
		p.mul.Rows(one, w, len(w), len(w))
		prod *= one[0]
	}
	if prod == 0 || math.IsInf(prod, 0) || prod != prod {
		return false
	}
	for at := 0; at < len(x); at += foldRow {
		w := wide[:min(foldRow, len(x)-at)]
		if len(x) > foldRow { // otherwise it is there still
			p.double(w, x[at:])
		}
		p.k.RDivS(w, w, prod)
		p.k.MulS(w, w, dy)
		p.single(out[at:at+len(w)], w)
	}
	return true
}

// copyRow copies len(dst) elements.
func copyRow[T any](dst, x []T) { copy(dst, x) }

// prodGrad is dy times the product of all other elements. That is the product of all by
// the element where both are finite and not 0.
func prodGrad[T float](s *compile.Step, lw *lowerer, double func(dst []float64, x []T), single func(dst []T, x []float64)) func(r *run) error {
	x := s.In[0]
	g := foldingOf(x, s.Ints)
	fast := prodGradRow[T]{lw.table64, lw.folds.F64.Mul, double, single}
	return func(r *run) error {
		if x.Shape.Elems() == 0 {
			return nil
		}
		in, dy, out := buf[T](r, &s.In[0]), buf[T](r, &s.In[1]), buf[T](r, &s.Out)
		g.kept.rows(r, func(i, base, _, _, _ int) {
			if g.alongRow() && fast.of(r, out[base:][:g.count], in[base:][:g.count], float64(dy[i])) {
				return
			}
			zeros, prod := 0, 1.0
			g.folded.each(r, base, func(o, m, st int) {
				for l := range m {
					if v := in[o+l*st]; v == 0 {
						zeros++
					} else {
						prod *= float64(v)
					}
				}
			})
			var others []float64
			if prod == 0 || math.IsInf(prod, 0) || prod != prod {
				others = productsOfOthers(r, &g, in, base)
			}
			g.folded.each(r, base, func(o, m, st int) {
				for l := range m {
					v := in[o+l*st]
					p := 0.0
					switch {
					case others != nil:
						p, others = others[0], others[1:]
					case zeros == 0:
						p = prod / float64(v)
					case zeros == 1 && v == 0:
						p = prod
					}
					out[o+l*st] = T(p * float64(dy[i]))
				}
			})
		})
		return nil
	}
}

// productsOfOthers returns, for each of the elements that fold into one from base on, the
// product of those before it and those after it.
func productsOfOthers[T float](r *run, g *folding, in []T, base int) []float64 {
	all, others := scratchRow[float64](r, 0, g.count)[:0], scratchRow[float64](r, 1, g.count)
	g.folded.each(r, base, func(o, m, st int) {
		for l := range m {
			all = append(all, float64(in[o+l*st]))
		}
	})
	before, after := 1.0, 1.0
	for i, v := range all {
		others[i] = before
		before *= v
	}
	for i, v := range slices.Backward(all) {
		others[i] *= after
		after *= v
	}
	return others
}
