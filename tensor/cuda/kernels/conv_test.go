package kernels

import (
	"math"
	"os"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// conv is a convolution of n images; the other fields are the kernels' Conv.
type conv struct {
	n, groups                                                       int
	channels, filters, h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw int
}

// each calls f with the places in x, in the weights and in y of each product.
func (c *conv) each(f func(x, w, y int)) {
	for n := range c.n {
		for o := range c.groups * c.filters {
			for at := range c.oh * c.ow {
				y := (n*c.groups*c.filters+o)*c.oh*c.ow + at
				for k := range c.channels * c.kh * c.kw {
					ch, i, j := k/(c.kh*c.kw), k/c.kw%c.kh, k%c.kw
					row, column := at/c.ow*c.sh-c.ph+i*c.dh, at%c.ow*c.sw-c.pw+j*c.dw
					if row < 0 || row >= c.h || column < 0 || column >= c.w {
						continue
					}
					plane := (n*c.groups+o/c.filters)*c.channels + ch
					f((plane*c.h+row)*c.w+column, o*c.channels*c.kh*c.kw+k, y)
				}
			}
		}
	}
}

// TestConvolutions compares convolutions and their gradients with sums in float64.
func TestConvolutions(t *testing.T) {
	for _, c := range []conv{
		{2, 1, 3, 4, 6, 5, 4, 3, 3, 3, 1, 1, 0, 0, 1, 1},
		{2, 2, 2, 3, 7, 8, 4, 3, 3, 2, 2, 3, 1, 1, 1, 1},
		{1, 4, 1, 2, 17, 18, 17, 16, 3, 3, 1, 1, 2, 1, 2, 1},
	} {
		x := random(c.n*c.groups*c.channels*c.h*c.w, 1)
		w := random(c.groups*c.filters*c.channels*c.kh*c.kw, 2)
		dy := random(c.n*c.groups*c.filters*c.oh*c.ow, 3)
		y, dx, dw := make([]float64, len(dy)), make([]float64, len(x)), make([]float64, len(w))
		c.each(func(i, j, k int) {
			y[k] += float64(x[i]) * float64(w[j])
			dx[i] += float64(dy[k]) * float64(w[j])
			dw[j] += float64(dy[k]) * float64(x[i])
		})
		g := cudatest.New(t, 1, os.Getenv)
		image, weights, grad := g.Floats(t, x), g.Floats(t, w), g.Floats(t, dy)
		for _, r := range []struct {
			kernel string
			in     []driver.DevicePtr
			grid   [3]int
			want   []float64
		}{
			{"conv2d_f32", []driver.DevicePtr{image, weights}, [3]int{(c.oh*c.ow + 255) / 256, c.groups * c.filters, c.n}, y},
			{"conv2d_grad_x_f32", []driver.DevicePtr{grad, weights}, [3]int{(c.h*c.w + 255) / 256, c.groups * c.channels, c.n}, dx},
			{"conv2d_grad_w_f32", []driver.DevicePtr{image, grad}, [3]int{c.kh * c.kw, c.channels, c.groups * c.filters}, dw},
		} {
			out, a := g.Floats(t, make([]float32, len(r.want))), new(driver.Args)
			for _, p := range append(r.in, out) {
				a.Pointer(p)
			}
			if r.kernel == "conv2d_grad_w_f32" {
				a.Uint32(uint32(c.n))
			}
			for _, v := range []int{c.channels, c.filters, c.h, c.w, c.oh, c.ow, c.kh, c.kw, c.sh, c.sw, c.ph, c.pw, c.dh, c.dw} {
				a.Uint32(uint32(v))
			}
			grid(t, g, "conv", r.kernel, r.grid[0], r.grid[1], r.grid[2], a)
			for i, got := range g.ReadFloats(t, out, len(r.want)) {
				if e := math.Abs(float64(got) - r.want[i]); !(e <= 1e-5*max(1, math.Abs(r.want[i]))) {
					t.Fatalf("%+v, %s: element %d is %g, want %g", c, r.kernel, i, got, r.want[i])
				}
			}
		}
	}
}
