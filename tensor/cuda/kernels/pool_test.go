package kernels

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// pool is the kernels' Pool.
type pool struct{ h, w, oh, ow, kh, kw, sh, sw, ph, pw int }

// each calls f with each window, clipped to the plane.
func (p *pool) each(f func(at, y0, y1, x0, x1 int)) {
	for at := range p.oh * p.ow {
		y, x := at/p.ow*p.sh-p.ph, at%p.ow*p.sw-p.pw
		f(at, max(y, 0), min(max(y+p.kh, 0), p.h), max(x, 0), min(max(x+p.kw, 0), p.w))
	}
}

// largest returns the place of a window's first largest element or NaN; -1 of none.
func (p *pool) largest(x []float32, y0, y1, x0, x1 int) int {
	where := -1
	for i := y0; i < y1; i++ {
		for j := x0; j < x1; j++ {
			k := i*p.w + j
			if where < 0 || x[k] > x[where] || x[k] != x[k] && x[where] == x[where] {
				where = k
			}
		}
	}
	return where
}

// run launches a kernel on planes and returns its n results.
func (p *pool) run(t *testing.T, g *cudatest.GPU, kernel string, in []driver.DevicePtr, out driver.DevicePtr, planes, n int) []float32 {
	t.Helper()
	a := new(driver.Args)
	for _, x := range append(in, out) {
		a.Pointer(x)
	}
	for _, v := range []int{p.h, p.w, p.oh, p.ow, p.kh, p.kw, p.sh, p.sw, p.ph, p.pw} {
		a.Uint32(uint32(v))
	}
	grid(t, g, "pool", kernel, (n/planes+255)/256, planes, 1, a)
	return g.ReadFloats(t, out, n)
}

// TestPools compares pools and their gradients with loops over the windows, bit for bit.
func TestPools(t *testing.T) {
	const planes = 2
	for _, p := range []pool{
		{8, 8, 4, 4, 2, 2, 2, 2, 0, 0}, {7, 9, 7, 9, 3, 3, 1, 1, 1, 1}, {5, 6, 4, 3, 3, 2, 2, 2, 2, 1}, {20, 20, 18, 18, 3, 3, 1, 1, 0, 0},
	} {
		large, small := p.h*p.w, p.oh*p.ow
		x, dy := random(planes*large, 1), random(planes*small, 2)
		x[3], x[large] = x[4], float32(math.NaN())
		top, mean := make([]float32, planes*small), make([]float32, planes*small)
		dtop, dmean := make([]float32, planes*large), make([]float32, planes*large)
		share := 1 / float32(p.kh*p.kw)
		for n := range planes {
			from := x[n*large:][:large]
			p.each(func(at, y0, y1, x0, x1 int) {
				at += n * small
				top[at] = float32(math.Inf(-1))
				if k := p.largest(from, y0, y1, x0, x1); k >= 0 {
					top[at] = from[k]
					dtop[n*large+k] += dy[at]
				}
				for i := y0; i < y1; i++ {
					for j := x0; j < x1; j++ {
						mean[at] += from[i*p.w+j]
						dmean[n*large+i*p.w+j] += float32(dy[at] * share)
					}
				}
				mean[at] *= share
			})
		}
		g := cudatest.New(t, 1, os.Getenv)
		in, grad := g.Floats(t, x), g.Floats(t, dy)
		for _, c := range []struct {
			kernel string
			in     []driver.DevicePtr
			want   []float32
		}{
			{"maxpool2d_f32", []driver.DevicePtr{in}, top},
			{"avgpool2d_f32", []driver.DevicePtr{in}, mean},
			{"maxpool2d_grad_f32", []driver.DevicePtr{in, grad}, dtop},
			{"avgpool2d_grad_f32", []driver.DevicePtr{grad}, dmean},
		} {
			out := g.Floats(t, make([]float32, len(c.want)))
			got := p.run(t, g, c.kernel, c.in, out, planes, len(c.want))
			if !slices.EqualFunc(got, c.want, func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Errorf("%+v, %s: %g, want %g", p, c.kernel, got, c.want)
			}
		}
	}
}
