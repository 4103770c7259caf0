package shard

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// row: any dim but the row's.
func (c *call) row() {
	x := c.sh[0]
	n := len(x)
	switch c.op {
	case tensor.OpCumsum, tensor.OpSoftmax, tensor.OpLogSoftmax, tensor.OpSoftmaxGrad, tensor.OpLogSoftmaxGrad:
		for d := range x {
			if d != int(c.ints[0]) {
				c.all(Shard(d))
			}
		}
		if c.op == tensor.OpCumsum {
			c.through(0, Sum, Mean)
		}
	case tensor.OpProdGrad:
		for d := range x {
			if len(c.ints) > 0 && !slices.Contains(c.ints, int64(d)) {
				c.all(Shard(d))
			}
		}
	case tensor.OpCausalSoftmax:
		for d := range n - 2 {
			c.all(Shard(d))
		}
	case tensor.OpLayerNorm, tensor.OpRMSNorm: // x, w, b
		c.leading(n-int(c.ints[0]), 1, Placement{})
	case tensor.OpLayerNormGradX, tensor.OpRMSNormGradX: // x, dy, w
		c.leading(n-int(c.ints[0]), 2, Placement{})
	case tensor.OpLayerNormGradW, tensor.OpRMSNormGradW: // x, dy
		c.leading(n-int(c.ints[0]), 2, Partial(Sum))
	case tensor.OpRope: // x [.., s, d], cos and sin [s, d/2]
		c.leading(n-2, 1, Placement{})
		c.add(Shard(n-2), Shard(n-2), Shard(0), Shard(0))
	case tensor.OpCrossEntropy: // weighted by the ranks' numbers of rows that count: see lowerLoss
		c.add(Partial(Sum), Shard(0), Shard(0))
	case tensor.OpCrossEntropyGrad:
		c.add(Shard(0), Shard(0), Shard(0), Replicate)
	case tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad:
		c.all(Shard(0))
		c.all(Shard(1))
	}
}

// leading: the first k operands may be sharded in the first n dims, the others are whole. The result lies like them, unless out
// says otherwise.
func (c *call) leading(n, k int, out Placement) {
	for d := range n {
		in := make([]Placement, len(c.sh))
		for j := range k {
			in[j] = Shard(d)
		}
		if out != (Placement{}) {
			c.add(out, in...)
		} else {
			c.add(Shard(d), in...)
		}
	}
}
