package tensor

import "math"

func matmulShape(c *inference) (Shape, error) {
	a, b := c.sh[0], c.sh[1]
	if len(a) < 2 || len(b) < 2 {
		return nil, c.shapeErr("%v x %v; expected two dims or more", a, b)
	}
	m, k, k2, n := a[len(a)-2], a[len(a)-1], b[len(b)-2], b[len(b)-1]
	if k != k2 {
		return nil, c.shapeErr("%v x %v: inner dims are %d and %d", a, b, k, k2)
	}
	batch, err := broadcast(c.room(), a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return nil, err
	}
	return append(append(c.room(), batch...), m, n), nil
}

// sameShapes checks that all operands have one shape, the result's.
func sameShapes(c *inference) (Shape, error) {
	for _, s := range c.sh[1:] {
		if !s.Equal(c.sh[0]) {
			return nil, c.shapeErr("%v and %v; expected equal shapes", c.sh[0], s)
		}
	}
	return c.sh[0], nil
}

func rowDimShape(c *inference) (Shape, error) {
	if _, err := c.dims(c.ints, len(c.sh[0])); err != nil {
		return nil, err
	}
	return sameShapes(c)
}

func causalShape(c *inference) (Shape, error) {
	if x := c.sh[0]; len(x) < 2 || x[len(x)-1] < x[len(x)-2] {
		return nil, c.shapeErr("%v; expected [.., s, t] with t >= s", x)
	}
	return c.sh[0], nil
}

// wantDy checks that the gradient dy has the shape of the result that it belongs to, out,
// which was inferred with err.
func (c *inference) wantDy(dy, out Shape, err error) error {
	if err == nil && !out.Equal(dy) {
		err = c.shapeErr("dy is %v, expected %v", dy, out)
	}
	return err
}

// normed returns the last n dims of x, where n is the first attribute, and checks that
// the weights have their shape.
func (c *inference) normed(weights []Shape) (last Shape, err error) {
	x, n := c.sh[0], c.ints[0]
	if n < 1 || n > int64(len(x)) {
		return nil, c.shapeErr("norm over the last %d dims of %v", n, x)
	}
	last = x[len(x)-int(n):]
	for _, w := range weights {
		if !w.Equal(last) {
			return nil, c.shapeErr("weight is %v, expected %v", w, last)
		}
	}
	return last, nil
}

func normShape(c *inference) (Shape, error) {
	_, err := c.normed(c.sh[1:])
	return c.sh[0], err
}

func normGradXShape(c *inference) (Shape, error) {
	_, err := c.normed(c.sh[2:])
	return c.sh[0], c.wantDy(c.sh[1], c.sh[0], err)
}

func normGradWShape(c *inference) (Shape, error) {
	last, err := c.normed(nil)
	return last, c.wantDy(c.sh[1], c.sh[0], err)
}

func ropeShape(c *inference) (Shape, error) {
	x := c.sh[0]
	if len(x) < 2 || x[len(x)-1]%2 != 0 {
		return nil, c.shapeErr("%v; expected [.., s, d] with an even d", x)
	}
	want := c.of(x[len(x)-2], x[len(x)-1]/2)
	for _, s := range c.sh[1:] {
		if !s.Equal(want) {
			return nil, c.shapeErr("table is %v, expected %v for %v", s, want, x)
		}
	}
	return x, nil
}

func crossEntropyShape(c *inference) (Shape, error) {
	x, y := c.sh[0], c.sh[1]
	if len(x) != 2 || len(y) != 1 || x[0] != y[0] {
		return nil, c.shapeErr("logits %v, targets %v; expected [n c] and [n]", x, y)
	}
	return Shape{}, nil
}

func crossEntropyGradShape(c *inference) (Shape, error) {
	out, err := crossEntropyShape(c)
	return c.sh[0], c.wantDy(c.sh[2], out, err)
}

// window returns the size of the result of a convolution or pool along one dim, after
// checking the geometry.
func (c *inference) window(in, kernel int, stride, pad, dilation int64) (int, error) {
	if stride < 1 || pad < 0 || dilation < 1 || stride > math.MaxInt32 || pad > math.MaxInt32 || dilation > math.MaxInt32 || kernel < 1 {
		return 0, c.shapeErr("kernel %d, stride %d, padding %d, dilation %d", kernel, stride, pad, dilation)
	}
	span := dilation*int64(kernel-1) + 1
	n := int64(in) + 2*pad - span
	if n < 0 {
		return 0, c.shapeErr("a window of %d over %d with padding %d", span, in, pad)
	}
	return int(n/stride) + 1, nil
}

// windows returns x with the given channels and with the sizes of a result by windows of
// kh by kw. Strides and paddings, height before width, begin at attribute i of c.
func (c *inference) windows(x Shape, channels, kh, kw, i int, dilation []int64) (Shape, error) {
	h, err := c.window(x[2], kh, c.ints[i], c.ints[i+2], dilation[0])
	if err != nil {
		return nil, err
	}
	w, err := c.window(x[3], kw, c.ints[i+1], c.ints[i+3], dilation[1])
	return c.of(x[0], channels, h, w), err
}

// groups returns the number of groups of a convolution, 0 if the attribute is none.
func (c *inference) groups() int {
	if g := c.ints[6]; g >= 1 && g <= math.MaxInt32 {
		return int(g)
	}
	return 0
}

// conv returns the shape of the convolution of x with weights w.
func (c *inference) conv(x, w Shape) (Shape, error) {
	if len(x) != 4 || len(w) != 4 {
		return nil, c.shapeErr("x %v, w %v; expected [n c h w] and [o c/groups kh kw]", x, w)
	}
	if g := c.groups(); g == 0 || x[1] != w[1]*g || w[0]%g != 0 {
		return nil, c.shapeErr("%d channels and weights %v in %d groups", x[1], w, c.ints[6])
	}
	return c.windows(x, w[0], w[2], w[3], 0, c.ints[4:])
}

func conv2DShape(c *inference) (Shape, error) { return c.conv(c.sh[0], c.sh[1]) }

// extents returns attributes i and i+1 as a height and a width.
func (c *inference) extents(i int) (h, w int, err error) {
	for _, n := range c.ints[i : i+2] {
		if n < 1 || n > math.MaxInt32 {
			return 0, 0, c.shapeErr("a size of %d", n)
		}
	}
	return int(c.ints[i]), int(c.ints[i+1]), nil
}

func conv2DGradXShape(c *inference) (Shape, error) {
	dy, w := c.sh[0], c.sh[1]
	h, v, err := c.extents(7)
	if err != nil {
		return nil, err
	}
	if len(dy) != 4 || len(w) != 4 {
		return nil, c.shapeErr("dy %v, w %v", dy, w)
	}
	x := c.of(dy[0], w[1]*c.groups(), h, v)
	out, err := c.conv(x, w)
	return x, c.wantDy(dy, out, err)
}

func conv2DGradWShape(c *inference) (Shape, error) {
	x, dy := c.sh[0], c.sh[1]
	h, v, err := c.extents(7)
	if err != nil {
		return nil, err
	}
	g := c.groups()
	if len(x) != 4 || len(dy) != 4 || g == 0 {
		return nil, c.shapeErr("x %v, dy %v in %d groups", x, dy, c.ints[6])
	}
	w := c.of(dy[1], x[1]/g, h, v)
	out, err := c.conv(x, w)
	return w, c.wantDy(dy, out, err)
}

// pool returns the shape of a pool over x.
func (c *inference) pool(x Shape) (Shape, error) {
	a := c.ints
	if len(x) != 4 {
		return nil, c.shapeErr("%v; expected [n c h w]", x)
	}
	kh, kw, err := c.extents(0)
	if err != nil {
		return nil, err
	}
	if 2*a[4] > a[0] || 2*a[5] > a[1] {
		return nil, c.shapeErr("padding %d, %d over half of the window %d, %d", a[4], a[5], kh, kw)
	}
	return c.windows(x, x[1], kh, kw, 2, []int64{1, 1})
}

func poolShape(c *inference) (Shape, error) { return c.pool(c.sh[0]) }

func maxPoolGradShape(c *inference) (Shape, error) {
	out, err := c.pool(c.sh[0])
	return c.sh[0], c.wantDy(c.sh[1], out, err)
}

func avgPoolGradShape(c *inference) (Shape, error) {
	dy := c.sh[0]
	if len(dy) != 4 {
		return nil, c.shapeErr("dy is %v", dy)
	}
	h, v, err := c.extents(6)
	if err != nil {
		return nil, err
	}
	x := c.of(dy[0], dy[1], h, v)
	out, err := c.pool(x)
	return x, c.wantDy(dy, out, err)
}
