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
