package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// pointwise reports whether each window is one pixel of the image.
func (g *geometry) pointwise() bool { return g.kh == 1 && g.kw == 1 && g.ph == 0 && g.pw == 0 }

// dense reports whether the windows of a pointwise convolution are all pixels.
func (g *geometry) dense() bool { return g.sh == 1 && g.sw == 1 }

// pick copies the pixels of some channels that pointwise windows see.
func (g *geometry) pick(dst, src []float32, channels int) {
	for c := range channels {
		for y := range g.oh {
			row := src[(c*g.h+y*g.sh)*g.w:][:g.w]
			for x := range g.ow {
				dst[(c*g.oh+y)*g.ow+x] = row[x*g.sw]
			}
		}
	}
}

// spread is the reverse of pick; it leaves the other pixels.
func (g *geometry) spread(dst, src []float32, channels int) {
	for c := range channels {
		for y := range g.oh {
			row := dst[(c*g.h+y*g.sh)*g.w:][:g.w]
			for x := range g.ow {
				row[x*g.sw] = src[(c*g.oh+y)*g.ow+x]
			}
		}
	}
}

// pointwise lowers a convolution of single pixels, or one of its gradients, to a product
// of matrices for each image.
func pointwise(s *compile.Step, g geometry) func(r *run) error {
	image, result := g.c*g.h*g.w, g.o*g.px
	// seen returns the pixels of a group of an image as a matrix of cg rows.
	seen := func(r *run, x []float32) []float32 {
		if g.dense() {
			return x
		}
		picked := r.room(g.cg * g.px)
		g.pick(picked, x, g.cg)
		return picked
	}
	return func(r *run) error {
		a, b, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		first, end := r.share(g.n, 1)
		i0, i1, j0, j1 := 0, g.og, 0, g.cg
		if s.Op == tensor.OpConv2DGradW { // a sum over images: parts have weights
			first, end = 0, g.n
			if i0, i1, j0, j1 = kernel.Split(g.og, g.cg, r.parts, r.part); i0 == i1 || j0 == j1 {
				return nil
			}
		}
		for i := first; i < end; i++ {
			for q := range g.groups {
				if r.stopped() {
					return nil
				}
				x, y, wts := i*image+q*g.cg*g.h*g.w, i*result+q*g.og*g.px, q*g.og*g.cg
				switch s.Op {
				case tensor.OpConv2D:
					gemm32(r, g.og, g.px, g.cg, kernel.Matrix[float32]{Data: b[wts:], RS: g.cg, CS: 1},
						kernel.Matrix[float32]{Data: seen(r, a[x:]), RS: g.px, CS: 1}, false, out[y:], g.px)
				case tensor.OpConv2DGradX:
					to := out[x:]
					if !g.dense() {
						to = r.room(g.cg * g.px)
					}
					gemm32(r, g.cg, g.px, g.og, kernel.Matrix[float32]{Data: b[wts:], RS: 1, CS: g.cg},
						kernel.Matrix[float32]{Data: a[y:], RS: g.px, CS: 1}, false, to, g.px)
					if !g.dense() {
						clear(out[x:][:g.cg*g.h*g.w])
						g.spread(out[x:], to, g.cg)
					}
				default:
					gemm32(r, i1-i0, j1-j0, g.px, kernel.Matrix[float32]{Data: b[y+i0*g.px:], RS: g.px, CS: 1},
						kernel.Matrix[float32]{Data: seen(r, a[x:])[j0*g.px:], RS: 1, CS: g.px}, i > 0, out[wts+i0*g.cg+j0:], g.cg)
				}
			}
		}
		return nil
	}
}
