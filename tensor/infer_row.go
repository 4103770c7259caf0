package tensor

import (
	"fmt"
	"math"
)

func inferMatmul(c *inference) error {
	d, err := c.common()
	if err != nil {
		return err
	}
	if d == Bool {
		return c.dtypeErr("numbers, not bool")
	}
	a, b := c.sh[0], c.sh[1]
	if len(a) < 2 || len(b) < 2 {
		return c.shapeErr("%v x %v; expected two dims or more", a, b)
	}
	m, k, k2, n := a[len(a)-2], a[len(a)-1], b[len(b)-2], b[len(b)-1]
	if k != k2 {
		return c.shapeErr("%v x %v: inner dims are %d and %d", a, b, k, k2)
	}
	batch, err := Broadcast(a[:len(a)-2], b[:len(b)-2])
	if err != nil {
		return err
	}
	out := make(Shape, 0, len(batch)+2)
	out = append(append(out, batch...), m, n)
	if err := out.Check(d); err != nil {
		return err
	}
	return c.give(d, out)
}

// sameShapes checks that all operands are floats of one dtype and shape.
func (c *inference) sameShapes() error {
	d, err := c.common()
	if err != nil {
		return err
	}
	if !d.IsFloat() {
		return c.dtypeErr("a float")
	}
	for _, s := range c.sh[1:] {
		if !s.Equal(c.sh[0]) {
			return c.shapeErr("%v and %v; expected equal shapes", c.sh[0], s)
		}
	}
	return c.give(d, c.sh[0])
}

func inferRowDim(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if _, err := c.dims(c.ints, len(c.sh[0])); err != nil {
		return err
	}
	return c.sameShapes()
}

func inferCausal(c *inference) error {
	if x := c.sh[0]; len(x) < 2 || x[len(x)-1] < x[len(x)-2] {
		return c.shapeErr("%v; expected [.., s, t] with t >= s", x)
	}
	return c.sameShapes()
}

// normed splits x's shape before its last n dims, where n is the first attribute.
func (c *inference) normed() (rows, last Shape, err error) {
	if err := c.wantInts(1); err != nil {
		return nil, nil, err
	}
	x := c.sh[0]
	n := c.ints[0]
	if n < 1 || n > int64(len(x)) {
		return nil, nil, c.shapeErr("norm over the last %d dims of %v", n, x)
	}
	d, err := c.common()
	if err != nil {
		return nil, nil, err
	}
	if !d.IsFloat() {
		return nil, nil, c.dtypeErr("a float")
	}
	return x[:len(x)-int(n)], x[len(x)-int(n):], nil
}

func inferNorm(c *inference) error {
	_, last, err := c.normed()
	if err != nil {
		return err
	}
	for _, w := range c.sh[1:] {
		if !w.Equal(last) {
			return c.shapeErr("weight is %v, expected %v", w, last)
		}
	}
	return c.give(c.dt[0], c.sh[0])
}

func inferNormGradX(c *inference) error {
	_, last, err := c.normed()
	if err != nil {
		return err
	}
	if !c.sh[1].Equal(c.sh[0]) {
		return c.shapeErr("dy is %v, expected %v", c.sh[1], c.sh[0])
	}
	if len(c.sh) == 3 && !c.sh[2].Equal(last) {
		return c.shapeErr("weight is %v, expected %v", c.sh[2], last)
	}
	return c.give(c.dt[0], c.sh[0])
}

func inferNormGradW(c *inference) error {
	_, last, err := c.normed()
	if err != nil {
		return err
	}
	if !c.sh[1].Equal(c.sh[0]) {
		return c.shapeErr("dy is %v, expected %v", c.sh[1], c.sh[0])
	}
	return c.give(c.dt[0], last)
}

func inferRope(c *inference) error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	d, err := c.common()
	if err != nil {
		return err
	}
	if !d.IsFloat() {
		return c.dtypeErr("a float")
	}
	x := c.sh[0]
	if len(x) < 2 || x[len(x)-1]%2 != 0 {
		return c.shapeErr("%v; expected [.., s, d] with an even d", x)
	}
	want := Shape{x[len(x)-2], x[len(x)-1] / 2}
	for _, s := range c.sh[1:] {
		if !s.Equal(want) {
			return c.shapeErr("table is %v, expected %v for %v", s, want, x)
		}
	}
	return c.give(d, x)
}

func (c *inference) logits() error {
	if err := c.wantInts(1); err != nil {
		return err
	}
	if err := c.indexDType(1); err != nil {
		return err
	}
	x, y := c.sh[0], c.sh[1]
	if !c.dt[0].IsFloat() {
		return fmt.Errorf("%w: logits of %v; expected a float", ErrDType, c.dt[0])
	}
	if len(x) != 2 || len(y) != 1 || x[0] != y[0] {
		return c.shapeErr("logits %v, targets %v; expected [n c] and [n]", x, y)
	}
	return nil
}

func inferCrossEntropy(c *inference) error {
	if err := c.logits(); err != nil {
		return err
	}
	return c.give(c.dt[0], Shape{})
}

func inferCrossEntropyGrad(c *inference) error {
	if err := c.logits(); err != nil {
		return err
	}
	if len(c.sh[2]) != 0 || c.dt[2] != c.dt[0] {
		return c.shapeErr("dy is %v of %v; expected a scalar of %v", c.sh[2], c.dt[2], c.dt[0])
	}
	return c.give(c.dt[0], c.sh[0])
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

// conv checks x, w and the attributes and returns the shape of the result.
func (c *inference) conv(x, w Shape, a []int64) (Shape, error) {
	if len(x) != 4 || len(w) != 4 {
		return nil, c.shapeErr("x %v, w %v; expected [n c h w] and [o c/groups kh kw]", x, w)
	}
	g := a[6]
	if g < 1 || g > math.MaxInt32 || int64(x[1]) != int64(w[1])*g || int64(w[0])%g != 0 {
		return nil, c.shapeErr("%d channels and weights %v in %d groups", x[1], w, g)
	}
	h, err := c.window(x[2], w[2], a[0], a[2], a[4])
	if err != nil {
		return nil, err
	}
	v, err := c.window(x[3], w[3], a[1], a[3], a[5])
	if err != nil {
		return nil, err
	}
	out := Shape{x[0], w[0], h, v}
	return out, out.Check(c.dt[0])
}

func (c *inference) floats() (DType, error) {
	d, err := c.common()
	if err == nil && !d.IsFloat() {
		err = c.dtypeErr("a float")
	}
	return d, err
}

func inferConv2D(c *inference) error {
	if err := c.wantInts(7); err != nil {
		return err
	}
	d, err := c.floats()
	if err != nil {
		return err
	}
	out, err := c.conv(c.sh[0], c.sh[1], c.ints)
	if err != nil {
		return err
	}
	return c.give(d, out)
}

// extents returns attributes i and i+1 as a height and a width.
func (c *inference) extents(i int) (h, w int, err error) {
	for _, n := range c.ints[i : i+2] {
		if n < 1 || n > math.MaxInt32 {
			return 0, 0, c.shapeErr("a size of %d", n)
		}
	}
	return int(c.ints[i]), int(c.ints[i+1]), nil
}

func inferConv2DGradX(c *inference) error {
	if err := c.wantInts(9); err != nil {
		return err
	}
	d, err := c.floats()
	if err != nil {
		return err
	}
	dy, w := c.sh[0], c.sh[1]
	h, v, err := c.extents(7)
	if err != nil {
		return err
	}
	if len(dy) != 4 || len(w) != 4 || c.ints[6] < 1 || c.ints[6] > math.MaxInt32 {
		return c.shapeErr("dy %v, w %v", dy, w)
	}
	x := Shape{dy[0], w[1] * int(c.ints[6]), h, v}
	out, err := c.conv(x, w, c.ints)
	if err != nil {
		return err
	}
	if !out.Equal(dy) {
		return c.shapeErr("dy is %v, expected %v", dy, out)
	}
	if err := x.Check(d); err != nil {
		return err
	}
	return c.give(d, x)
}

func inferConv2DGradW(c *inference) error {
	if err := c.wantInts(9); err != nil {
		return err
	}
	d, err := c.floats()
	if err != nil {
		return err
	}
	x, dy := c.sh[0], c.sh[1]
	h, v, err := c.extents(7)
	if err != nil {
		return err
	}
	g := c.ints[6]
	if len(x) != 4 || len(dy) != 4 || g < 1 || g > math.MaxInt32 || int64(x[1])%g != 0 {
		return c.shapeErr("x %v, dy %v in %d groups", x, dy, g)
	}
	w := Shape{dy[1], x[1] / int(g), h, v}
	out, err := c.conv(x, w, c.ints)
	if err != nil {
		return err
	}
	if !out.Equal(dy) {
		return c.shapeErr("dy is %v, expected %v", dy, out)
	}
	if err := w.Check(d); err != nil {
		return err
	}
	return c.give(d, w)
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
	h, err := c.window(x[2], kh, a[2], a[4], 1)
	if err != nil {
		return nil, err
	}
	v, err := c.window(x[3], kw, a[3], a[5], 1)
	if err != nil {
		return nil, err
	}
	return Shape{x[0], x[1], h, v}, nil
}

func inferPool(c *inference) error {
	if err := c.wantInts(6); err != nil {
		return err
	}
	d, err := c.floats()
	if err != nil {
		return err
	}
	out, err := c.pool(c.sh[0])
	if err != nil {
		return err
	}
	return c.give(d, out)
}

func inferMaxPoolGrad(c *inference) error {
	if err := c.wantInts(6); err != nil {
		return err
	}
	d, err := c.floats()
	if err != nil {
		return err
	}
	out, err := c.pool(c.sh[0])
	if err != nil {
		return err
	}
	if !out.Equal(c.sh[1]) {
		return c.shapeErr("dy is %v, expected %v", c.sh[1], out)
	}
	return c.give(d, c.sh[0])
}

func inferAvgPoolGrad(c *inference) error {
	if err := c.wantInts(8); err != nil {
		return err
	}
	d, err := c.floats()
	if err != nil {
		return err
	}
	dy := c.sh[0]
	if len(dy) != 4 {
		return c.shapeErr("dy is %v", dy)
	}
	h, v, err := c.extents(6)
	if err != nil {
		return err
	}
	x := Shape{dy[0], dy[1], h, v}
	out, err := c.pool(x)
	if err != nil {
		return err
	}
	if !out.Equal(dy) {
		return c.shapeErr("dy is %v, expected %v", dy, out)
	}
	if err := x.Check(d); err != nil {
		return err
	}
	return c.give(d, x)
}
