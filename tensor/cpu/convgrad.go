package cpu

import (
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// phase describes one dim of a phase of the gradient by the image: the pixels first,
// first + stride and so on, count of them. The window's elements taps reach them: of the
// result whose number is the pixel's number in the phase plus offs.
type phase struct {
	first, count int
	taps, offs   []int
}

// phasesOf returns the phases of a dim of n pixels and k elements of the window, and the
// least and the most results before and behind those of outs that they reach.
func phasesOf(n, k, stride, pad, dilation, outs int) (all []phase, before, size int) {
	size = outs
	for first := range min(stride, n) {
		p := phase{first: first, count: (n - first + stride - 1) / stride}
		for i := range k {
			if at := first + pad - i*dilation; at%stride == 0 {
				p.taps, p.offs = append(p.taps, i), append(p.offs, at/stride)
				before = max(before, -at/stride)
				size = max(size, at/stride+p.count)
			}
		}
		all = append(all, p)
	}
	return all, before, before + size
}

// part is a phase of the gradient by the image.
type part struct {
	y, x  phase
	plane plane
	at    []int // taps in the frame
	k     int
}

// turn copies the weights [o, c, kh, kw] of the part's taps as [c, o, taps].
func (p *part) turn(g *geometry, dst, w []float32) {
	for c := range g.cg {
		for o := range g.og {
			from := w[(o*g.cg+c)*g.kh*g.kw:]
			for _, i := range p.y.taps {
				for _, j := range p.x.taps {
					dst[0] = from[i*g.kw+j]
					dst = dst[1:]
				}
			}
		}
	}
}

func (lw *lowerer) directGradX(s *compile.Step, g geometry) func(r *run) error {
	ys, top, ph := phasesOf(g.h, g.kh, g.sh, g.ph, g.dh, g.oh)
	xs, left, pw := phasesOf(g.w, g.kw, g.sw, g.pw, g.dw, g.ow)
	f := frame{chans: g.og, h: g.oh, w: g.ow, top: top, left: left, sh: 1, sw: 1, ph: ph, pw: pw}
	var parts []part
	width := 0
	for _, y := range ys {
		for _, x := range xs {
			p := part{y: y, x: x, plane: newPlane(g.cg, y.count, x.count, pw), k: g.og * len(y.taps) * len(x.taps)}
			for o := range g.og {
				for _, i := range y.offs {
					for _, j := range x.offs {
						p.at = append(p.at, f.at(o, top+i, left+j))
					}
				}
			}
			width = max(width, p.plane.width())
			parts = append(parts, p)
		}
	}
	image, result := g.c*g.h*g.w, g.o*g.px
	return func(r *run) error {
		dy, w, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		weights := g.og * g.k
		room := r.room(weights + g.cg*width + f.elems() + kernel.TapsPad)
		turned, rows, padded := room[:weights], room[weights:weights+g.cg*width], room[weights+g.cg*width:]
		clear(padded)
		first, end := r.share(g.n, 1)
		for q := range g.groups {
			at := 0
			for i := range parts {
				parts[i].turn(&g, turned[at:], w[q*weights:])
				at += g.cg * parts[i].k
			}
			for i := first; i < end; i++ {
				if r.stopped() {
					return nil
				}
				f.fill(padded, dy[i*result+q*g.og*g.px:])
				to, at := out[i*image+q*g.cg*g.h*g.w:], 0
				for j := range parts {
					p := &parts[j]
					var store func(c, y int, row []float32)
					if len(parts) > 1 {
						store = func(c, y int, row []float32) {
							line := to[(c*g.h+p.y.first+y*g.sh)*g.w:][:g.w]
							for x, v := range row {
								line[p.x.first+x*g.sw] = v
							}
						}
					}
					p.plane.compute(r, p.k, kernel.Matrix[float32]{Data: turned[at:], RS: p.k, CS: 1}, padded, p.at, to, g.h*g.w, rows, store)
					at += g.cg * p.k
				}
			}
		}
		return nil
	}
}

// windowsGradW lowers the gradient by weights of 3×3: products of windows, where they lie
// in the padded channel, and of the gradient of the result with its outputs side by side.
// Each part does some of the channels.
func windowsGradW(s *compile.Step, g geometry) func(r *run) error {
	const taps = kernel.WindowSide * kernel.WindowSide
	o := (g.og + kernel.WindowUnit - 1) / kernel.WindowUnit * kernel.WindowUnit
	f := frame{chans: 1, h: g.h, w: g.w, top: g.ph, left: g.pw, sh: 1, sw: 1, ph: g.h + 2*g.ph, pw: g.w + 2*g.pw}
	p := kernel.Plane{Rows: g.oh, Cols: g.ow, RowStep: g.sh * f.pw, ColStep: g.sw, LineStep: g.dh * f.pw}
	return func(r *run) error {
		x, dy, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		lo, hi := r.share(g.c, 1)
		if lo == hi {
			return nil
		}
		room := r.room(f.elems() + g.px*o + (hi-lo)*taps*o)
		clear(room)
		padded, turned, sums := room[:f.elems()], room[f.elems():f.elems()+g.px*o], room[f.elems()+g.px*o:]
		for i := range g.n {
			for c, q := lo, -1; c < hi; c++ {
				if r.stopped() {
					return nil
				}
				if c/g.cg != q {
					q = c / g.cg
					r.table.Transpose(turned, o, dy[(i*g.o+q*g.og)*g.px:], g.px, g.og, g.px)
				}
				f.fill(padded, x[(i*g.c+c)*g.h*g.w:])
				r.table.Windows(p, padded, turned, o, sums[(c-lo)*taps*o:])
			}
		}
		for c := lo; c < hi; c++ {
			for q := range g.og {
				for t := range taps {
					out[(c/g.cg*g.og+q)*g.k+c%g.cg*taps+t] = sums[((c-lo)*taps+t)*o+q]
				}
			}
		}
		return nil
	}
}

// dotsGradW lowers the gradient by the weights of groups of few outputs, one number after
// the other: each is a sum of products of rows. Each part does some of the channels.
func dotsGradW(s *compile.Step, g geometry) func(r *run) error {
	f := g.frame()
	f.chans = 1
	kk := g.kh * g.kw
	var taps []int
	for i := range g.kh {
		for j := range g.kw {
			taps = append(taps, f.at(0, i*g.dh, j*g.dw))
		}
	}
	windows := g.kh == kernel.WindowSide && g.kw == kernel.WindowSide && g.dw == 1 && g.sw == 1 && g.sh == 1
	p := kernel.Plane{Rows: g.oh, Cols: g.ow, RowStep: f.pw, ColStep: 1, LineStep: g.dh * f.pw}
	return func(r *run) error {
		x, dy, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		room := r.room(f.elems() + g.og*kk)
		padded, sums := room[:f.elems()], room[f.elems():]
		clear(padded)
		lo, hi := r.share(g.c, 1)
		for c := lo; c < hi; c++ {
			q := c / g.cg
			clear(sums)
			for i := range g.n {
				if r.stopped() {
					return nil
				}
				f.fill(padded, x[(i*g.c+c)*g.h*g.w:])
				for o := range g.og {
					d, sum := dy[(i*g.o+q*g.og+o)*g.px:][:g.px], sums[o*kk:][:kk]
					if windows {
						r.table.WindowDots(p, padded, d, sum)
						continue
					}
					for t, at := range taps {
						for y := range g.oh {
							sum[t] += r.table.Dot(d[y*g.ow:][:g.ow], padded[at+y*f.pw:][:g.ow])
						}
					}
				}
			}
			for o := range g.og {
				copy(out[(q*g.og+o)*g.k+c%g.cg*kk:], sums[o*kk:][:kk])
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
