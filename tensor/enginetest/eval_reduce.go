package enginetest

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// maskOf returns the mask of the dims of sh that a list names; an empty one means all.
func maskOf(dims []int64, sh tensor.Shape) (mask uint) {
	for _, d := range dims {
		mask |= 1 << d
	}
	if len(dims) == 0 {
		mask = lastDims(sh, len(sh))
	}
	return mask
}

// reduce folds the dims listed after keepdim; an empty list means all.
func (c *call) reduce(out *array) {
	x := c.tensor(0)
	mask := maskOf(c.ints[1:], x.sh)
	addFloats, addInts, start := add[float64], add[int64], 0
	if c.op == tensor.OpProd {
		addFloats, addInts, start = times[float64], times[int64], 1
	}
	for g, at := range groups(x.sh, mask) {
		switch c.op {
		case tensor.OpAmax, tensor.OpAmin:
			out.copyFrom(g, x, at[extreme(x, at, c.op == tensor.OpAmax)])
			continue
		case tensor.OpArgmax, tensor.OpArgmin:
			out.i[g] = int64(extreme(x, at, c.op == tensor.OpArgmax))
			continue
		}
		var f float64
		var n int64
		switch {
		case x.dt.IsFloat():
			f = foldAt(x.f, at, float64(start), addFloats)
		case c.op == tensor.OpMean: // a sum of i64 would wrap
			for _, k := range at {
				f += float64(x.i[k])
			}
		default:
			n = foldAt(x.i, at, int64(start), addInts)
		}
		switch c.op {
		case tensor.OpSum, tensor.OpProd:
			out.set(g, f, n)
		case tensor.OpMean:
			out.f[g] = f / float64(len(at))
		case tensor.OpAny:
			out.i[g] = min(n, 1)
		case tensor.OpAll:
			out.i[g] = max(n-int64(len(at))+1, 0)
		}
	}
}

func add[T float64 | int64](a, b T) T   { return a + b }
func times[T float64 | int64](a, b T) T { return a * b }

// foldAt folds the elements at the positions into start.
func foldAt[T float64 | int64](x []T, at []int, start T, f func(a, b T) T) T {
	for _, k := range at {
		start = f(start, x[k])
	}
	return start
}

// extreme returns the number in the group of the first largest or smallest element; a NaN
// precedes all others.
func extreme(x *array, at []int, largest bool) int {
	best := 0
	for j, k := range at {
		var better bool
		if x.dt.IsFloat() {
			a, b := x.f[k], x.f[at[best]]
			better = b == b && (a != a || largest && a > b || !largest && a < b)
		} else {
			a, b := x.i[k], x.i[at[best]]
			better = largest && a > b || !largest && a < b
		}
		if better {
			best = j
		}
	}
	return best
}

// row computes the operations that work on whole rows: every group of positions along
// dim, or of the last dims.
func (c *call) row(out *array) error {
	x := c.tensor(0)
	switch c.op {
	case tensor.OpCumsum:
		for _, at := range groups(x.sh, 1<<c.ints[0]) {
			var f float64
			var n int64
			if c.ints[1] != 0 {
				slices.Reverse(at)
			}
			for _, k := range at {
				if x.dt.IsFloat() {
					f += x.f[k]
				} else {
					n += x.i[k]
				}
				out.set(k, f, n)
			}
		}
	case tensor.OpProdGrad:
		for g, at := range groups(x.sh, maskOf(c.ints, x.sh)) {
			for _, k := range at {
				p := c.tensor(1).f[g]
				for _, j := range at {
					if j != k {
						p *= x.f[j]
					}
				}
				out.f[k] = p
			}
		}
	case tensor.OpSoftmax, tensor.OpLogSoftmax:
		for _, at := range groups(x.sh, 1<<c.ints[0]) {
			softmax(out, x, at, 1, c.op == tensor.OpLogSoftmax)
		}
	case tensor.OpCausalSoftmax:
		s, t := x.sh[len(x.sh)-2], x.sh[len(x.sh)-1]
		for g, at := range groups(x.sh, lastDims(x.sh, 1)) {
			softmax(out, x, at[:g%s+t-s+1], c.scalar(0), false)
		}
	case tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad:
		dy := c.tensor(1)
		for _, at := range groups(x.sh, 1<<c.ints[0]) {
			dot, sum := 0.0, 0.0
			for _, k := range at {
				sum += c.term(dy.f[k])
				dot += c.term(x.f[k] * dy.f[k])
			}
			for _, k := range at {
				if c.op == tensor.OpSoftmaxGrad {
					out.f[k] = x.f[k] * c.minus(dy.f[k], dot)
				} else {
					out.f[k] = c.minus(dy.f[k], math.Exp(x.f[k])*sum)
				}
			}
		}
	case tensor.OpLayerNorm, tensor.OpRMSNorm, tensor.OpLayerNormGradX, tensor.OpRMSNormGradX, tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
		c.norm(out)
	case tensor.OpRope:
		c.rope(out)
	case tensor.OpCrossEntropy, tensor.OpCrossEntropyGrad:
		return c.crossEntropy(out)
	case tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad:
		c.pool(out)
	}
	return nil
}

// softmax writes the softmax of x*scale over the positions at, or its logarithm.
func softmax(out, x *array, at []int, scale float64, log bool) {
	top := math.Inf(-1)
	for _, k := range at {
		top = max(top, x.f[k]*scale)
	}
	sum := 0.0
	for _, k := range at {
		sum += math.Exp(x.f[k]*scale - top)
	}
	for _, k := range at {
		if log {
			out.f[k] = x.f[k]*scale - top - math.Log(sum)
		} else {
			out.f[k] = math.Exp(x.f[k]*scale-top) / sum
		}
	}
}

// longSum returns the sum of f over at, with what each addition rounds off added at the
// end: the sums of engines, in other orders, may be nearer to it than to a plain one.
func longSum(at []int, f func(k int) float64) float64 {
	sum, rest := 0.0, 0.0
	for _, k := range at {
		v := f(k)
		next := sum + v
		if math.Abs(sum) < math.Abs(v) {
			rest += sum - (next - v)
		} else {
			rest += v - (next - sum)
		}
		sum = next
	}
	if total := sum + rest; total == total {
		return total
	}
	return sum
}

// norm computes layer_norm and rms_norm, forward and backward. A row is normalised as
// xhat = (x - mu) / r, with mu = 0 for rms_norm. Its gradient is (v - mean(v) -
// xhat*mean(v*xhat)) / r for v = dy*w, without mean(v) for rms_norm.
//
// The rounding of the mean shifts the whole row. So the size of xhat's terms is
// (|x|+|mu|)/r, however small xhat is itself.
func (c *call) norm(out *array) {
	x := c.tensor(0)
	eps := c.scalar(0)
	center := c.op == tensor.OpLayerNorm || c.op == tensor.OpLayerNormGradX || c.op == tensor.OpLayerNormGradW
	for _, at := range groups(x.sh, lastDims(x.sh, int(c.ints[0]))) {
		n := float64(len(at))
		mu := 0.0
		if center {
			mu = longSum(at, func(k int) float64 { return x.f[k] }) / n
		}
		v := longSum(at, func(k int) float64 { return (x.f[k] - mu) * (x.f[k] - mu) })
		r := math.Sqrt(v/n + eps)
		xhat := func(k int) float64 { return c.minus(x.f[k], mu) / r }
		switch c.op {
		case tensor.OpLayerNorm, tensor.OpRMSNorm:
			for j, k := range at {
				out.f[k] = xhat(k)
				if c.tensors() > 1 {
					out.f[k] *= c.term(c.tensor(1).f[j])
				}
				if c.tensors() > 2 {
					out.f[k] += c.term(c.tensor(2).f[j])
				}
			}
		case tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
			for j, k := range at {
				out.f[j] += c.term(c.tensor(1).f[k]) * xhat(k)
			}
		default:
			c.normGradX(out, at, xhat, func(k int) float64 { return c.term((x.f[k] - mu) / r) }, r)
		}
	}
}

// normGradX computes a row of the gradient of the operand. xhat is the size of its terms
// where value is only the size of the value.
func (c *call) normGradX(out *array, at []int, xhat, value func(k int) float64, r float64) {
	n := float64(len(at))
	d := make([]float64, len(at))
	mean, dot, wide := 0.0, 0.0, 0.0
	for j, k := range at {
		d[j] = c.tensor(1).f[k]
		if c.tensors() > 2 {
			d[j] *= c.tensor(2).f[j]
		}
		d[j] = c.term(d[j])
		mean += d[j] / n
		dot += d[j] * value(k) / n
		wide += d[j] * xhat(k) / n
	}
	if c.op == tensor.OpRMSNormGradX {
		mean = 0
	}
	for j, k := range at {
		if c.terms {
			out.f[k] = (d[j] + mean + value(k)*wide + xhat(k)*dot) / r
		} else {
			out.f[k] = (d[j] - mean - value(k)*dot) / r
		}
	}
}

func (c *call) rope(out *array) {
	x, cos, sin := c.tensor(0), c.tensor(1), c.tensor(2)
	s, d := x.sh[len(x.sh)-2], x.sh[len(x.sh)-1]
	for g, at := range groups(x.sh, lastDims(x.sh, 1)) {
		for i := range d / 2 {
			t := g%s*(d/2) + i
			u, v := cos.f[t], sin.f[t]
			if c.ints[0] != 0 {
				v = -v
			}
			a, b := x.f[at[i]], x.f[at[i+d/2]]
			out.f[at[i]] = a*u - b*v
			out.f[at[i+d/2]] = b*u + a*v
		}
	}
}

// crossEntropy computes the loss or its gradient dy*(softmax(x) - onehot(y))/n over the n
// rows that count. With no such row the loss is NaN and the gradient 0.
func (c *call) crossEntropy(out *array) error {
	x, y := c.tensor(0), c.tensor(1)
	classes := x.sh[1]
	n := 0
	for k, t := range y.i {
		if t == c.ints[0] {
			continue
		}
		if t < 0 || t >= int64(classes) {
			return outOfRange(t, k, classes)
		}
		n++
	}
	loss := 0.0
	for r, t := range y.i {
		if t == c.ints[0] {
			continue
		}
		at := make([]int, classes)
		for j := range at {
			at[j] = r*classes + j
		}
		log := newArray(x.dt, x.sh)
		softmax(log, x, at, 1, true)
		loss -= log.f[at[t]]
		if c.op == tensor.OpCrossEntropyGrad {
			for j, k := range at {
				p := math.Exp(log.f[k])
				if j == int(t) {
					p = c.minus(p, 1)
				}
				out.f[k] = p * c.tensor(2).f[0] / float64(n)
			}
		}
	}
	if c.op == tensor.OpCrossEntropy {
		out.f[0] = loss / float64(n)
	}
	return nil
}
