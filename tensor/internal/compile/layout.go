package compile

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// readable reports whether a step of op can read o, its operand k, without a dense copy.
//
//	elementwise, reductions, concat, pad   any strides
//	matmul                                 strides of at least 0 in the last two dims
//	softmax along the last dim, norms,     each row contiguous, rows in ascending
//	rope, cross entropy                    order
//	index_select along the first dim       each slice contiguous, in ascending order
//	all others                             dense
func readable(op tensor.Op, k int, o Operand, ints []int64) bool {
	if o.Scalar >= 0 || o.Dense {
		return true
	}
	rank := len(o.Shape)
	switch op {
	case tensor.OpMatmul:
		return o.Strides[rank-2] >= 0 && o.Strides[rank-1] >= 0
	case tensor.OpConcat, tensor.OpPad:
		return true
	case tensor.OpIndexSelect:
		return k == 0 && ints[0] == 0 && rows(o, rank-1)
	case tensor.OpDropout:
		return false // its mask depends on the element's index
	case tensor.OpLayerNorm, tensor.OpRMSNorm:
		return k == 0 && rows(o, int(ints[0]))
	case tensor.OpLayerNormGradX, tensor.OpRMSNormGradX, tensor.OpLayerNormGradW, tensor.OpRMSNormGradW:
		return k <= 1 && rows(o, int(ints[0]))
	case tensor.OpRope, tensor.OpCausalSoftmax, tensor.OpCrossEntropy, tensor.OpCrossEntropyGrad:
		return k == 0 && rows(o, 1)
	case tensor.OpSoftmax, tensor.OpLogSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad:
		return int(ints[0]) == rank-1 && rows(o, 1)
	}
	c := op.Info().Class
	return c == tensor.ClassElementwise || c == tensor.ClassReduction
}

// rows reports whether the last n dims of o are contiguous and no other stride is
// negative.
func rows(o Operand, n int) bool {
	cut := len(o.Shape) - n
	return dense(o.Shape[cut:], o.Strides[cut:]) && !slices.ContainsFunc(o.Strides[:cut], func(st int) bool { return st < 0 })
}

// forward returns matrix o without negative strides, for kernels that take none. Only a
// dim of size 1 can have one here, and its stride does not matter.
func forward(o Operand) Operand {
	n := len(o.Shape)
	if o.Strides[n-2] >= 0 && o.Strides[n-1] >= 0 {
		return o
	}
	o.Strides = slices.Clone(o.Strides)
	if o.Strides[n-1] < 0 {
		o.Strides[n-1] = 1
	}
	if o.Strides[n-2] < 0 {
		o.Strides[n-2] = o.Shape[n-1] * o.Strides[n-1]
	}
	return o
}
