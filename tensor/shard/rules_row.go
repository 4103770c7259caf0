package shard

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
)

// row allows any dim except the row's to be sharded.
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
		if c.op == tensor.OpCumsum && c.dt[0] == c.odt {
			// Another type may overflow where this one doesn't.
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
	// weighted by each rank's number of rows that count, see lowerLoss
	case tensor.OpCrossEntropy:
		c.add(Partial(Sum), Shard(0), Shard(0))
	case tensor.OpCrossEntropyGrad:
		c.add(Shard(0), Shard(0), Shard(0), Replicate)
	case tensor.OpMaxPool2D, tensor.OpMaxPool2DGrad, tensor.OpAvgPool2D, tensor.OpAvgPool2DGrad:
		c.all(Shard(0))
		c.all(Shard(1))
	}
}

// leading allows the first k operands to be sharded in one of the first n dims, with the
// others whole. The result has the same placement, unless out says otherwise.
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
