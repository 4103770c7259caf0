package cpu

import "github.com/ringside-go/ringside/tensor/cpu/internal/kernel"

// frame holds images of a group with zeros around them, in phases: see convdirect.go.
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

// frame returns the frame of a group of an image.
func (g *geometry) frame() frame {
	f := frame{chans: g.cg, h: g.h, w: g.w, top: g.ph, left: g.pw, sh: g.sh, sw: g.sw}
	f.ph, f.pw = (g.h+2*g.ph+g.sh-1)/g.sh, (g.w+2*g.pw+g.sw-1)/g.sw
	return f
}

// room returns n elements of scratch, not cleared.
func (r *run) room(n int) []float32 {
	r.cols = grow(r, r.cols, (n+1)/2)
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
