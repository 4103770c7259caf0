package enginetest

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
)

func (c *call) contract(out *array) {
	if c.op == tensor.OpMatmul {
		c.matmul(out)
	} else {
		c.conv(out)
	}
}

// matmul computes the sum over p of a[.., i, p]*b[.., p, j].
func (c *call) matmul(out *array) {
	n := len(c.sh)
	batch := c.sh[:n-2]
	k := c.tensor(0).sh[len(c.tensor(0).sh)-1]
	widen := func(x *array) *array {
		r := len(x.sh)
		return x.expand(append(append(tensor.Shape{}, batch...), x.sh[r-2], x.sh[r-1]))
	}
	a, b := widen(c.tensor(0)), widen(c.tensor(1))
	rows, cols := c.sh[n-2], c.sh[n-1]
	for o := range out.len() {
		j, i, q := o%cols, o/cols%rows, o/cols/rows
		for p := range k {
			x, y := (q*rows+i)*k+p, (q*k+p)*cols+j
			if out.dt.IsFloat() {
				out.f[o] += a.f[x] * b.f[y]
			} else {
				out.i[o] += a.i[x] * b.i[y]
			}
		}
	}
}

// window is the geometry of a convolution or a pool.
type window struct {
	kh, kw, sh, sw, ph, pw, dh, dw int
}

// each calls f for every pair of an output position (oy, ox) and a place (ky, kx) in its
// window that lies at (y, x) within an h by w image.
func (g window) each(oh, ow, h, w int, f func(oy, ox, ky, kx, y, x int)) {
	for oy := range oh {
		for ox := range ow {
			for ky := range g.kh {
				for kx := range g.kw {
					y, x := oy*g.sh-g.ph+ky*g.dh, ox*g.sw-g.pw+kx*g.dw
					if y >= 0 && y < h && x >= 0 && x < w {
						f(oy, ox, ky, kx, y, x)
					}
				}
			}
		}
	}
}

// conv computes conv2d and both its gradients: x, w and y are related by y[o] +=
// x[i]*w[k], and the one of the three that is not an input is the sum of these products.
func (c *call) conv(out *array) {
	var x, w, y *array
	switch c.op {
	case tensor.OpConv2D:
		x, w, y = c.tensor(0), c.tensor(1), out
	case tensor.OpConv2DGradX:
		x, w, y = out, c.tensor(1), c.tensor(0)
	case tensor.OpConv2DGradW:
		x, w, y = c.tensor(0), out, c.tensor(1)
	}
	a := c.ints
	g := window{w.sh[2], w.sh[3], int(a[0]), int(a[1]), int(a[2]), int(a[3]), int(a[4]), int(a[5])}
	groups := int(a[6])
	outs := y.sh[1] / groups // output channels of a group
	for n := range x.sh[0] {
		for o := range y.sh[1] {
			for ci := range w.sh[1] {
				ch := 0 // channel of x
				if outs > 0 {
					ch = o/outs*w.sh[1] + ci
				}
				g.each(y.sh[2], y.sh[3], x.sh[2], x.sh[3], func(oy, ox, ky, kx, iy, ix int) {
					i, k, j := flat(x.sh, n, ch, iy, ix), flat(w.sh, o, ci, ky, kx), flat(y.sh, n, o, oy, ox)
					switch out {
					case y:
						y.f[j] += x.f[i] * w.f[k]
					case x:
						x.f[i] += y.f[j] * w.f[k]
					case w:
						w.f[k] += x.f[i] * y.f[j]
					}
				})
			}
		}
	}
}

func (c *call) pool(out *array) {
	a := c.ints
	g := window{int(a[0]), int(a[1]), int(a[2]), int(a[3]), int(a[4]), int(a[5]), 1, 1}
	small, big := out, c.tensor(0) // the pooled image and the one under the windows
	switch c.op {
	case tensor.OpMaxPool2DGrad:
		small = c.tensor(1)
	case tensor.OpAvgPool2DGrad:
		small, big = c.tensor(0), out
	}
	planes := small.sh[0] * small.sh[1]
	oh, ow, h, w := small.sh[2], small.sh[3], big.sh[2], big.sh[3]
	area := float64(g.kh * g.kw)
	best := make([]int, small.len()) // position of each window's first largest
	top := make([]float64, small.len())
	for k := range best {
		best[k], top[k] = -1, math.Inf(-1)
	}
	for p := range planes {
		g.each(oh, ow, h, w, func(oy, ox, _, _, y, x int) {
			o, i := (p*oh+oy)*ow+ox, (p*h+y)*w+x
			switch c.op {
			case tensor.OpAvgPool2D:
				out.f[o] += big.f[i] / area
			case tensor.OpAvgPool2DGrad:
				out.f[i] += small.f[o] / area
			default:
				if v := big.f[i]; best[o] < 0 || top[o] == top[o] && (v > top[o] || v != v) {
					best[o], top[o] = i, v
				}
			}
		})
	}
	switch c.op {
	case tensor.OpMaxPool2D:
		copy(out.f, top)
	case tensor.OpMaxPool2DGrad:
		for o, i := range best {
			if i >= 0 {
				out.f[i] += small.f[o]
			}
		}
	}
}
