package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// A direct convolution makes no window matrix. Where windows move one column at a time, a
// row of that matrix is a piece of the padded image, so the product reads it there: tap
// (c, i, j) of output row y is
//
//	padded[c][y*stride+i*dilation][j*dilation : j*dilation+ow]
//
// and all output rows have the same taps, counted from the first pixel they see. The
// gradient by the image is the same computation with the padded gradient of the result
// for the image, and with the weights rotated.

// maxDirect bounds the weights of a group, which are read again for every row of the
// result: 128 KiB.
const maxDirect = 1 << 15

// direct lowers a convolution of f32 or its gradient by the image; it returns nil if the
// geometry needs the window matrix.
func (lw *lowerer) direct(s *compile.Step) func(r *run) error {
	if s.Out.DType != tensor.F32 {
		return nil
	}
	switch g := geometryOf(s); s.Op {
	case tensor.OpConv2D:
		if g.sw != 1 || g.og*g.k > maxDirect || g.n*g.c*g.o*g.k == 0 {
			return nil
		}
		return lw.directForward(s, g)
	case tensor.OpConv2DGradX:
		top, left := (g.kh-1)*g.dh-g.ph, (g.kw-1)*g.dw-g.pw
		if g.sh != 1 || g.sw != 1 || top < 0 || left < 0 || g.og*g.k > maxDirect || g.n*g.c*g.o*g.k == 0 {
			return nil
		}
		return lw.directGradX(s, g, top, left)
	case tensor.OpConv2DGradW:
		if g, ok := directGradW(s); ok {
			return lw.directGradW(s, g)
		}
	}
	return nil
}

// directGradW returns the geometry of a convolution whose gradient by the weights, s, is
// computed directly.
func directGradW(s *compile.Step) (g geometry, ok bool) {
	if s.Out.DType != tensor.F32 {
		return g, false
	}
	g = geometryOf(s)
	return g, g.sh == 1 && g.sw == 1 && g.n*g.c*g.o*g.k != 0 && g.kw*g.cg*(g.h+2*g.ph)*g.ow <= maxCols
}

// directGradWork returns its work as workOf counts it, 0 where one thread computes the
// sum over images.
func directGradWork(s *compile.Step) int {
	g, ok := directGradW(s)
	if !ok {
		return 0
	}
	return bounded(g.n*g.o*g.px, g.k) / 10
}

// frame holds images of a group with zeros around them.
type frame struct {
	chans, h, w int // of an image
	top, left   int
	ph, pw      int // with zeros
}

func (f *frame) elems() int { return f.chans * f.ph * f.pw }

// fill copies an image into a frame whose border is zero.
func (f *frame) fill(dst, src []float32) {
	for c := range f.chans {
		for y := range f.h {
			copy(dst[(c*f.ph+f.top+y)*f.pw+f.left:][:f.w], src[(c*f.h+y)*f.w:])
		}
	}
}

// room returns n elements of scratch, not cleared.
func (r *run) room(n int) []float32 {
	r.cols = grow(r.cols, (n+1)/2)
	return slice[float32](bytesOf(r.cols))[:n]
}

// tapCols is the most columns of one product of taps: with maxDirect weights it takes a
// few milliseconds.
const tapCols = 1 << 12

// tapRow computes a row of the result, c, as Table.GemmTaps does.
func tapRow(r *run, m, n, k int, a kernel.Matrix[float32], b []float32, taps []int, c []float32, ldc int) {
	for j := 0; j < n && !r.stopped(); j += tapCols {
		r.table.GemmTaps(m, min(tapCols, n-j), k, a, b[j:], taps, false, c[j:], ldc)
	}
}

func (lw *lowerer) directForward(s *compile.Step, g geometry) func(r *run) error {
	f := frame{chans: g.cg, h: g.h, w: g.w, top: g.ph, left: g.pw, ph: g.h + 2*g.ph, pw: g.w + 2*g.pw}
	var taps []int
	for c := range g.cg {
		for i := range g.kh {
			for j := range g.kw {
				taps = append(taps, (c*f.ph+i*g.dh)*f.pw+j*g.dw)
			}
		}
	}
	image, result := g.c*g.h*g.w, g.o*g.px
	return func(r *run) error {
		x, w, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		padded := r.room(f.elems() + kernel.TapsPad)
		clear(padded)
		first, end := r.share(g.n, 1)
		for i := first; i < end; i++ {
			for q := range g.groups {
				f.fill(padded, x[i*image+q*g.cg*g.h*g.w:])
				a := kernel.Matrix[float32]{Data: w[q*g.og*g.k:], RS: g.k, CS: 1}
				for y := range g.oh {
					tapRow(r, g.og, g.ow, g.k, a, padded[y*g.sh*f.pw:], taps, out[i*result+q*g.og*g.px+y*g.ow:], g.px)
				}
			}
		}
		return nil
	}
}

func (lw *lowerer) directGradX(s *compile.Step, g geometry, top, left int) func(r *run) error {
	f := frame{chans: g.og, h: g.oh, w: g.ow, top: top, left: left, ph: g.h + (g.kh-1)*g.dh, pw: g.w + (g.kw-1)*g.dw}
	kk := g.kh * g.kw
	var taps []int // of o, i, j
	for o := range g.og {
		for i := range g.kh {
			for j := range g.kw {
				taps = append(taps, (o*f.ph+(g.kh-1-i)*g.dh)*f.pw+(g.kw-1-j)*g.dw)
			}
		}
	}
	image, result := g.c*g.h*g.w, g.o*g.px
	return func(r *run) error {
		dy, w, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		room := r.room(g.cg*g.og*kk + f.elems() + kernel.TapsPad)
		turned, padded := room[:g.cg*g.og*kk], room[g.cg*g.og*kk:]
		clear(padded)
		first, end := r.share(g.n, 1)
		for q := range g.groups {
			for c := range g.cg { // weights [o, c, kk] as [c, o, kk]
				for o := range g.og {
					copy(turned[(c*g.og+o)*kk:][:kk], w[((q*g.og+o)*g.cg+c)*kk:])
				}
			}
			a := kernel.Matrix[float32]{Data: turned, RS: g.og * kk, CS: 1}
			for i := first; i < end; i++ {
				f.fill(padded, dy[i*result+q*g.og*g.px:])
				for y := range g.h {
					tapRow(r, g.cg, g.w, g.og*kk, a, padded[y*f.pw:], taps, out[i*image+q*g.cg*g.h*g.w+y*g.w:], g.h*g.w)
				}
			}
		}
		return nil
	}
}

// directGradW lowers the gradient by the weights, kw of them at a time: with the image
// shifted by j, one row below the other, those of (c, i) are
//
//	dw[o][c][i][0..kw] = Σ_pixels shifted[c][j][i*dilation*ow + pixel] * dy[o][pixel]
//
// a product of kw rows whose other operand is dy transposed. Each part does some of the
// (c, i).
func (lw *lowerer) directGradW(s *compile.Step, g geometry) func(r *run) error {
	const wide = 16 // outputs are filled up to whole vectors
	o := (g.og + wide - 1) / wide * wide
	ph := g.h + 2*g.ph
	plane := ph * g.ow // of one c and j
	image, result := g.c*g.h*g.w, g.o*g.px
	return func(r *run) error {
		x, dy, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		lo, hi := r.share(g.cg*g.kh, 1)
		if lo == hi {
			return nil
		}
		c0, c1 := lo/g.kh, (hi-1)/g.kh+1
		parts := []int{(c1 - c0) * g.kw * plane, o * g.px, g.px * o, (hi - lo) * g.kw * o}
		room := r.room(parts[0] + parts[1] + parts[2] + parts[3])
		cut := func(n int) (p []float32) {
			p, room = room[:n], room[n:]
			return p
		}
		shifted, filled, turned, sums := cut(parts[0]), cut(parts[1]), cut(parts[2]), cut(parts[3])
		clear(shifted)
		clear(filled)
		for q := range g.groups {
			clear(sums)
			for i := range g.n {
				if r.stopped() {
					return nil
				}
				for c := c0; c < c1; c++ {
					g.shift(shifted[(c-c0)*g.kw*plane:], x[i*image+(q*g.cg+c)*g.h*g.w:])
				}
				copy(filled, dy[i*result+q*g.og*g.px:][:g.og*g.px])
				r.table.Transpose(turned, o, filled, g.px, o, g.px)
				for at := lo; at < hi; at++ {
					c, row := at/g.kh-c0, at%g.kh
					gemm32(r, g.kw, o, g.px, kernel.Matrix[float32]{Data: shifted[c*g.kw*plane+row*g.dh*g.ow:], RS: plane, CS: 1},
						kernel.Matrix[float32]{Data: turned, RS: o, CS: 1}, true, sums[(at-lo)*g.kw*o:], o)
				}
			}
			for at := lo; at < hi; at++ {
				for j := range g.kw {
					for p := range g.og {
						out[(q*g.og+p)*g.k+at*g.kw+j] = sums[((at-lo)*g.kw+j)*o+p]
					}
				}
			}
		}
		return nil
	}
}

// shift writes a channel kw times, [kw, h+2ph, ow]: the columns that output column 0 and
// those after it see with column j of their window. It leaves the zeros of the padding.
func (g *geometry) shift(dst, src []float32) {
	plane := (g.h + 2*g.ph) * g.ow
	for j := range g.kw {
		from := j*g.dw - g.pw // column of the image at output column 0
		lo, hi := span(from, 1, g.w, g.ow)
		if lo == hi {
			continue
		}
		for y := range g.h {
			copy(dst[j*plane+(g.ph+y)*g.ow+lo:][:hi-lo], src[y*g.w+from+lo:])
		}
	}
}
