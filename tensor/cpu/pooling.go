package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// pool2D is the geometry of a pool.
type pool2D struct {
	h, w, oh, ow           int // of a plane and of the pooled
	kh, kw, sh, sw, ph, pw int
}

// pooling lowers max and average pooling and their gradients, a plane at a time.
func pooling[T float](s *compile.Step) func(r *run) error {
	x, y := s.In[0].Shape, s.Out.Shape // of the input and of the pooled
	switch s.Op {
	case tensor.OpMaxPool2DGrad:
		y = s.In[1].Shape
	case tensor.OpAvgPool2DGrad:
		x, y = s.Out.Shape, s.In[0].Shape
	}
	a := s.Ints
	g := pool2D{h: x[2], w: x[3], oh: y[2], ow: y[3],
		kh: int(a[0]), kw: int(a[1]), sh: int(a[2]), sw: int(a[3]), ph: int(a[4]), pw: int(a[5])}
	read, wrote := s.In[0].Shape[2:].Elems(), s.Out.Shape[2:].Elems() // of a plane
	share := T(1) / T(g.kh*g.kw)
	pairs := g.kh == 2 && g.kw == 2 && g.sh == 2 && g.sw == 2 && g.ph == 0 && g.pw == 0
	return func(r *run) error {
		out, in := buf[T](r, &s.Out), buf[T](r, &s.In[0])
		first, end := r.share(x[0]*x[1], 1)
		for p := first; p < end && !r.stopped(); p++ {
			from, to := in[p*read:][:read], out[p*wrote:][:wrote]
			switch s.Op {
			case tensor.OpMaxPool2D:
				if pairs {
					maxPairs(&g, to, from)
				} else {
					g.windows(r, func(at, y0, y1, x0, x1 int) {
						if k := largest(from, g.w, y0, y1, x0, x1); k >= 0 {
							to[at] = from[k]
						} else {
							to[at] = T(math.Inf(-1))
						}
					})
				}
			case tensor.OpMaxPool2DGrad:
				dy := buf[T](r, &s.In[1])[p*g.oh*g.ow:][:g.oh*g.ow]
				clear(to)
				if pairs {
					maxPairsGrad(&g, to, from, dy)
				} else {
					g.windows(r, func(at, y0, y1, x0, x1 int) {
						if k := largest(from, g.w, y0, y1, x0, x1); k >= 0 {
							to[k] += dy[at]
						}
					})
				}
			case tensor.OpAvgPool2D:
				g.windows(r, func(at, y0, y1, x0, x1 int) {
					sum := T(0)
					for i := y0; i < y1; i++ {
						for _, v := range from[i*g.w+x0 : i*g.w+x1] {
							sum += v
						}
					}
					to[at] = sum * share
				})
			default:
				clear(to)
				g.windows(r, func(at, y0, y1, x0, x1 int) {
					for i := y0; i < y1; i++ {
						row := to[i*g.w+x0 : i*g.w+x1]
						for j := range row {
							row[j] += from[at] * share
						}
					}
				})
			}
		}
		return nil
	}
}

// windows calls f with each output's window of a plane: rows y0 to y1, columns x0 to x1.
// The window is empty if it lies in the padding.
func (g *pool2D) windows(r *run, f func(at, y0, y1, x0, x1 int)) {
	for oy := range g.oh {
		y0 := oy*g.sh - g.ph
		y1 := max(min(y0+g.kh, g.h), 0)
		y0 = min(max(y0, 0), y1)
		for ox := range g.ow {
			if r.stopped() {
				return
			}
			x0 := ox*g.sw - g.pw
			x1 := max(min(x0+g.kw, g.w), 0)
			f(oy*g.ow+ox, y0, y1, min(max(x0, 0), x1), x1)
		}
	}
}

// largest returns the place of the first of the largest elements of a window, or of its
// first NaN; -1 if it is empty.
func largest[T float](x []T, w, y0, y1, x0, x1 int) int {
	where := -1
	var best T
	for i := y0; i < y1; i++ {
		for j := x0; j < x1; j++ {
			if v := x[i*w+j]; where < 0 || v > best || v != v && best == best {
				best, where = v, i*w+j
			}
		}
	}
	return where
}

// maxPairs writes the largest of squares of two by two.
func maxPairs[T float](g *pool2D, dst, src []T) {
	for oy := range g.oh {
		to := dst[oy*g.ow:][:g.ow]
		a, b := src[2*oy*g.w:][:2*g.ow], src[(2*oy+1)*g.w:][:2*g.ow]
		for i := range to {
			to[i] = max(a[2*i], a[2*i+1], b[2*i], b[2*i+1])
		}
	}
}

// maxPairsGrad gives each square's gradient to its first largest element, or its first
// NaN. The place is computed, not branched on, as the branch could not be predicted.
func maxPairsGrad[T float](g *pool2D, dst, src, dy []T) {
	for oy := range g.oh {
		from := dy[oy*g.ow:][:g.ow]
		at := 2 * oy * g.w
		a, b := src[at:][:2*g.ow], src[at+g.w:][:2*g.ow]
		to := dst[at:][:g.w+2*g.ow]
		for i, v := range from {
			p, q, r := a[2*i], a[2*i+1], b[2*i]
			top := max(p, q, r, b[2*i+1])
			if top != top {
				top, p, q, r = 0, notNaN(p), notNaN(q), notNaN(r)
			}
			notP, notQ, notR := 0, 0, 0
			if p != top {
				notP = 1
			}
			if q != top {
				notQ = 1
			}
			if r != top {
				notR = 1
			}
			k := notP * (1 + notQ*(1+notR)) // 0 to 3
			to[2*i+k&1+(k>>1)*g.w] = v
		}
	}
}

// notNaN returns 0 for a NaN, else 1.
func notNaN[T float](x T) T {
	if x != x {
		return 0
	}
	return 1
}
