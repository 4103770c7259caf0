package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// A direct convolution makes no window matrix. A row of that matrix is a piece of the
// padded image, so the product reads it there. With strides the image is cut in phases,
// one for each remainder of row and column, within which windows move by one: tap
// (c, i, j) of output row y is, for padded row i*dilation = stride*I + u and column
// j*dilation = stride*J + v,
//
//	phase u, v of channel c [y+I][J : J+ow]
//
// and all output rows have the same taps, counted from the first pixel they see. The
// gradient by the image is one such computation for each phase of the image, on the
// padded gradient of the result: its weights are those of the taps that fall into the
// phase.

// maxDirect bounds the weights of a group, which are read again for some rows of the
// result at a time and should stay in the second-level cache: 1 MiB.
const maxDirect = 1 << 18

// direct lowers a convolution of f32 or one of its gradients; it returns nil if the
// geometry needs the window matrix.
func (lw *lowerer) direct(s *compile.Step) func(r *run) error {
	if s.Out.DType != tensor.F32 {
		return nil
	}
	g := geometryOf(s)
	if g.n*g.c*g.o*g.k == 0 {
		return nil
	}
	if g.pointwise() {
		return pointwise(s, g)
	}
	switch s.Op {
	case tensor.OpConv2D:
		if g.og*g.k <= maxDirect {
			return lw.directForward(s, g)
		}
	case tensor.OpConv2DGradX:
		if g.og*g.k <= maxDirect {
			return lw.directGradX(s, g)
		}
	case tensor.OpConv2DGradW:
		switch wayOfGradW(s, g) {
		case byWindows:
			return windowsGradW(s, g)
		case byRowsOfTaps:
			return dotsGradW(s, g)
		case byShifts:
			return lw.directGradW(s, g)
		}
	}
	return nil
}

// gradWay is how a gradient by the weights is computed.
type gradWay int

const (
	byMatrix     gradWay = iota // the window matrix
	byWindows                   // windows of 3×3 where they lie
	byRowsOfTaps                // one number after the other
	byShifts                    // a row of the window at a time
)

// fewOutputs is the most outputs of a group whose gradients are computed one by one:
// whole vectors of outputs would be mostly empty.
const fewOutputs = 4

// wayOfGradW chooses by measurements, see "Convolutions" in docs/decisions.md.
func wayOfGradW(s *compile.Step, g geometry) gradWay {
	switch {
	case s.Out.DType != tensor.F32 || g.n*g.c*g.o*g.k == 0:
		return byMatrix
	case g.og <= fewOutputs && g.dw*g.kw <= g.w+2*g.pw:
		return byRowsOfTaps
	case g.kh == kernel.WindowSide && g.kw == kernel.WindowSide && g.dw == 1:
		return byWindows
	case g.sh == 1 && g.sw == 1 && g.kw*g.cg*(g.h+2*g.ph)*g.ow <= maxCols:
		return byShifts
	}
	return byMatrix
}

// directGradWork returns the work of a gradient by the weights as workOf counts it, 0
// where one thread computes the sum over images.
func directGradWork(s *compile.Step) int {
	g := geometryOf(s)
	if s.Out.DType != tensor.F32 || wayOfGradW(s, g) == byMatrix && !g.pointwise() {
		return 0
	}
	return bounded(g.n*g.o*g.px, g.k) / 10
}

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

// frame holds images of a group with zeros around them, in phases: see above.
type frame struct {
	chans, h, w int // of an image
	top, left   int
	sh, sw      int // the number of phases
	ph, pw      int // of a phase, with zeros
}

func (f *frame) elems() int { return f.chans * f.sh * f.sw * f.ph * f.pw }

// at returns where pixel y, x of the padded channel c lies.
func (f *frame) at(c, y, x int) int {
	return (((c*f.sh+y%f.sh)*f.sw+x%f.sw)*f.ph+y/f.sh)*f.pw + x/f.sw
}

// fill copies an image into a frame whose border is zero.
func (f *frame) fill(dst, src []float32) {
	for c := range f.chans {
		for y := range f.h {
			row := src[(c*f.h+y)*f.w:][:f.w]
			if f.sw == 1 {
				copy(dst[f.at(c, f.top+y, f.left):], row)
				continue
			}
			for v := range f.sw {
				x := (v - f.left%f.sw + f.sw) % f.sw // the first column of the phase
				if x >= f.w {
					continue
				}
				to := dst[f.at(c, f.top+y, f.left+x):]
				for i := 0; x < f.w; x += f.sw {
					to[i] = row[x]
					i++
				}
			}
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
const tapCols = 1 << 9

// tapRow computes a row of the result, c, as Table.GemmTaps does.
func tapRow(r *run, m, n, k int, a kernel.Matrix[float32], b []float32, taps []int, c []float32, ldc int) {
	for j := 0; j < n && !r.stopped(); j += tapCols {
		r.table.GemmTaps(m, min(tapCols, n-j), k, a, b[j:], taps, false, c[j:], ldc)
	}
}

// plane is a result of products of taps for m channels: rows of cols numbers. In the
// frame the taps of a row are step apart from those of the row before.
type plane struct {
	m, rows, cols, step int
	// flat is that all rows are computed as one, with what lies between them: where tiles
	// would be less full of short rows
	flat bool
}

func newPlane(m, rows, cols, step int) plane {
	tile := 32 // two vectors
	if m == 1 {
		tile = 128
	}
	wide := (cols + tile - 1) / tile * tile
	return plane{m: m, rows: rows, cols: cols, step: step, flat: rows > 1 && 9*step < 8*wide}
}

// width is how many numbers of a channel one product computes.
func (p *plane) width() int {
	if !p.flat {
		return p.cols
	}
	return (p.rows-1)*p.step + p.cols
}

// compute computes the plane of k taps and calls store with each row, or writes them to
// out, in which channels are ldc apart, if store is nil. room has m widths.
func (p *plane) compute(r *run, k int, a kernel.Matrix[float32], b []float32, taps []int, out []float32, ldc int, room []float32, store func(c, y int, row []float32)) {
	n := p.width()
	if store == nil && !p.flat {
		for y := range p.rows {
			tapRow(r, p.m, n, k, a, b[y*p.step:], taps, out[y*n:], ldc)
		}
		return
	}
	if store == nil {
		store = func(c, y int, row []float32) { copy(out[c*ldc+y*p.cols:], row) }
	}
	if p.flat {
		tapRow(r, p.m, n, k, a, b, taps, room, n)
	}
	for y := range p.rows {
		at := y * p.step
		if !p.flat {
			at = 0
			tapRow(r, p.m, n, k, a, b[y*p.step:], taps, room, n)
		}
		for c := range p.m {
			store(c, y, room[c*n+at:][:p.cols])
		}
	}
}

func (lw *lowerer) directForward(s *compile.Step, g geometry) func(r *run) error {
	f := g.frame()
	var taps []int
	for c := range g.cg {
		for i := range g.kh {
			for j := range g.kw {
				taps = append(taps, f.at(c, i*g.dh, j*g.dw))
			}
		}
	}
	p := newPlane(g.og, g.oh, g.ow, f.pw)
	image, result := g.c*g.h*g.w, g.o*g.px
	return func(r *run) error {
		x, w, out := buf[float32](r, &s.In[0]), buf[float32](r, &s.In[1]), buf[float32](r, &s.Out)
		room := r.room(g.og*p.width() + f.elems() + kernel.TapsPad)
		rows, padded := room[:g.og*p.width()], room[g.og*p.width():]
		clear(padded)
		first, end := r.share(g.n, 1)
		for i := first; i < end; i++ {
			for q := range g.groups {
				if r.stopped() {
					return nil
				}
				f.fill(padded, x[i*image+q*g.cg*g.h*g.w:])
				a := kernel.Matrix[float32]{Data: w[q*g.og*g.k:], RS: g.k, CS: 1}
				p.compute(r, g.k, a, padded, taps, out[i*result+q*g.og*g.px:], g.px, rows, nil)
			}
		}
		return nil
	}
}

// frame returns the frame of a group of an image.
func (g *geometry) frame() frame {
	f := frame{chans: g.cg, h: g.h, w: g.w, top: g.ph, left: g.pw, sh: g.sh, sw: g.sw}
	f.ph, f.pw = (g.h+2*g.ph+g.sh-1)/g.sh, (g.w+2*g.pw+g.sw-1)/g.sw
	return f
}

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
