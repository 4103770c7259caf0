package nn

import "github.com/ringside-go/ringside/tensor"

// Ignored is the class that CrossEntropy does not count.
const Ignored = -100

// MSE returns the mean of (x-target)², of two tensors of one shape, or of which one is
// broadcast to the other. If both would be, as [n, 1] and [n] to [n, n], it is an error.
func MSE(x, target *tensor.Tensor) *tensor.Tensor {
	return roundedOnce(x, target, func(x, target *tensor.Tensor) *tensor.Tensor { return x.Sub(target).Square().Mean() })
}

// roundedOnce returns f of x and target, computed in their wide types. If both are of a
// type for storage only, only the result is rounded to that. If both were broadcast, the
// result is the error that the target doesn't expand to the shape of x.
func roundedOnce(x, target *tensor.Tensor, f func(x, target *tensor.Tensor) *tensor.Tensor) *tensor.Tensor {
	both, err := tensor.Broadcast(x.Shape(), target.Shape())
	if err == nil && !both.Equal(x.Shape()) && !both.Equal(target.Shape()) {
		return target.Expand(x.Shape()...)
	}
	wide := func(t *tensor.Tensor) *tensor.Tensor { return t.Cast(t.DType().Wide()) }
	y := f(wide(x), wide(target))
	if d := tensor.Promote(x.DType(), target.DType()); d.IsStorage() {
		return y.Cast(d)
	}
	return y
}

// BCEWithLogits returns the mean of -target log p - (1-target) log(1-p) with p =
// sigmoid(x). It is computed as log(1+e^x) - x target, with the larger of x and 0 taken
// out of the logarithm, which does not overflow. Shapes are as for MSE.
func BCEWithLogits(x, target *tensor.Tensor) *tensor.Tensor {
	return roundedOnce(x, target, func(x, target *tensor.Tensor) *tensor.Tensor {
		m := x.Detach().ReLU()
		softplus := m.Neg().Exp().Add(x.Sub(m).Exp()).Log().Add(m)
		return softplus.Sub(x.Mul(target)).Mean()
	})
}

// CrossEntropy returns the mean of -log softmax(x)[target] over all rows whose target
// isn't Ignored, for logits x [.., classes] and targets [..] of i32 or i64.
func CrossEntropy(x, target *tensor.Tensor) *tensor.Tensor { return x.CrossEntropy(target, Ignored) }
