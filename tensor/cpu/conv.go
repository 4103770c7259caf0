package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// geometry is that of a two-dimensional convolution.
type geometry struct {
	n, c, h, w int // input
	o, oh, ow  int // output
	kh, kw     int
	sh, sw     int
	ph, pw     int
	dh, dw     int
	groups     int
	// channels and outputs of a group, rows and columns of its window matrix
	cg, og, k, px int
}

func geometryOf(s *compile.Step) geometry {
	x, w, y, a := s.In[0].Shape, s.In[1].Shape, s.Out.Shape, s.Ints
	switch s.Op {
	case tensor.OpConv2DGradX:
		x, y = y, x
	case tensor.OpConv2DGradW:
		w, y = y, w
	}
	g := geometry{n: x[0], c: x[1], h: x[2], w: x[3], o: w[0], oh: y[2], ow: y[3], kh: w[2], kw: w[3],
		sh: int(a[0]), sw: int(a[1]), ph: int(a[2]), pw: int(a[3]), dh: int(a[4]), dw: int(a[5]), groups: int(a[6])}
	g.cg, g.og = g.c/g.groups, g.o/g.groups
	g.k, g.px = g.cg*g.kh*g.kw, g.oh*g.ow
	return g
}

// span returns the range of outputs [lo, hi) whose window element at offset off (in input
// coordinates, stride s) lies in 0..n-1.
func span(off, s, n, outs int) (lo, hi int) {
	if off < 0 {
		lo = (-off + s - 1) / s
	}
	hi = 0
	if n-1-off >= 0 {
		hi = (n-1-off)/s + 1
	}
	return min(lo, outs), max(min(hi, outs), min(lo, outs))
}

// maxCols bounds the elements of a window matrix to a megabyte of f32, which stays in the
// second-level cache. Larger ones are made and used some output pixels at a time.
const maxCols = 1 << 18

// chunk returns the number of output pixels that are done at a time.
func (g *geometry) chunk() int {
	n := maxCols / max(g.k, 1)
	switch {
	case n >= 64:
		n &^= 31 // whole panels of the matrix product
	case g.k <= maxCols:
		n = max(n, 16) // a product of fewer columns is slow
	}
	return min(max(n, 1), g.px)
}

// windows visits the rows of one group's window matrix [k, p1-p0] for the output pixels
// p0 to p1. It calls f with the row's index and, for every output row, its piece [a, b),
// within which [lo, hi) have an element of the input: pixel x has that at from + x*sw.
func (g *geometry) windows(p0, p1 int, f func(row, piece, a, b, lo, hi, from int)) {
	row := 0
	for c := range g.cg {
		for i := range g.kh {
			for j := range g.kw {
				x := j*g.dw - g.pw
				lo, hi := span(x, g.sw, g.w, g.ow)
				for oy := p0 / g.ow; oy*g.ow < p1; oy++ {
					a, b := max(p0-oy*g.ow, 0), min(p1-oy*g.ow, g.ow)
					y := oy*g.sh + i*g.dh - g.ph
					if y < 0 || y >= g.h {
						f(row, oy*g.ow+a-p0, a, b, a, a, 0)
						continue
					}
					l := min(max(lo, a), b)
					f(row, oy*g.ow+a-p0, a, b, l, max(min(hi, b), l), (c*g.h+y)*g.w+x)
				}
				row++
			}
		}
	}
}

// im2col makes the window matrix of one group of one image for the pixels p0 to p1.
func im2col[T float](g *geometry, cols, x []T, p0, p1 int) {
	g.windows(p0, p1, func(row, piece, a, b, lo, hi, from int) {
		d := cols[row*(p1-p0)+piece:][:b-a]
		clear(d[:lo-a])
		if g.sw == 1 && hi > lo {
			copy(d[lo-a:hi-a], x[from+lo:])
		} else {
			for i := lo; i < hi; i++ {
				d[i-a] = x[from+i*g.sw]
			}
		}
		clear(d[hi-a:])
	})
}

// col2im adds a window matrix back to the image.
func col2im[T float](g *geometry, x, cols []T, p0, p1 int) {
	g.windows(p0, p1, func(row, piece, a, b, lo, hi, from int) {
		d := cols[row*(p1-p0)+piece:][:b-a]
		for i := lo; i < hi; i++ {
			x[from+i*g.sw] += d[i-a]
		}
	})
}

// convolution lowers conv2d and its gradients to a matrix product for each group of each
// image.
func convolution[T float](s *compile.Step, mul product[T]) func(r *run) error {
	g := geometryOf(s)
	image, result := g.c*g.h*g.w, g.o*g.px
	return func(r *run) error {
		out := buf[T](r, &s.Out)[:s.Out.Shape.Elems()]
		if g.n*g.c*g.o == 0 {
			if r.part == 0 {
				clear(out)
			}
			return nil
		}
		first, end := r.share(g.n, 1) // images
		switch s.Op {
		case tensor.OpConv2DGradX:
			clear(out[first*image : end*image])
		case tensor.OpConv2DGradW: // a sum over images: never shared
			clear(out)
		}
		chunk := g.chunk()
		r.cols = grow(r, r.cols, (g.k*chunk*sizeOf[T]()+7)/8)
		room := slice[T](bytesOf(r.cols))
		a, b := buf[T](r, &s.In[0]), buf[T](r, &s.In[1])
		for i := first; i < end; i++ {
			for q := range g.groups {
				in, res, wts := i*image+q*g.cg*g.h*g.w, i*result+q*g.og*g.px, q*g.og*g.k
				for p := 0; p < g.px && !r.stopped(); p += chunk {
					px := min(chunk, g.px-p)
					cols := room[:g.k*px]
					switch s.Op {
					case tensor.OpConv2D: // y = w x cols
						im2col(&g, cols, a[in:], p, p+px)
						mul(r, g.og, px, g.k, kernel.Matrix[T]{Data: b[wts:], RS: g.k, CS: 1}, kernel.Matrix[T]{Data: cols, RS: px, CS: 1}, false, out[res+p:], g.px)
					case tensor.OpConv2DGradX: // cols = w' x dy
						mul(r, g.k, px, g.og, kernel.Matrix[T]{Data: b[wts:], RS: 1, CS: g.k}, kernel.Matrix[T]{Data: a[res+p:], RS: g.px, CS: 1}, false, cols, px)
						col2im(&g, out[in:], cols, p, p+px)
					default: // dw += dy x cols'
						im2col(&g, cols, a[in:], p, p+px)
						mul(r, g.og, g.k, px, kernel.Matrix[T]{Data: b[res+p:], RS: g.px, CS: 1}, kernel.Matrix[T]{Data: cols, RS: 1, CS: px}, true, out[wts:], g.k)
					}
				}
			}
		}
		return nil
	}
}
