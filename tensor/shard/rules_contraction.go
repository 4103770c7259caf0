package shard

import "github.com/ringside-go/ringside/tensor"

func (c *call) contraction() {
	a, b := c.sh[0], c.sh[1]
	s0, s1 := Shard(0), Shard(1)
	// Channels may be sharded only if every rank has some, because engines do not support
	// windows over nothing.
	groups := c.op != tensor.OpMatmul && c.ints[6] != 1
	some := func(n int) bool { return !groups && n >= c.ranks }
	switch c.op {
	case tensor.OpMatmul:
		c.matmul()
		return
	case tensor.OpConv2D: // x [n c h w], w [o c kh kw]
		c.add(s0, s0, Replicate)
		if some(b[0]) {
			c.add(s1, Replicate, s0)
		}
		if some(a[1]) {
			c.add(Partial(Sum), s1, s1)
		}
	case tensor.OpConv2DGradX: // dy [n o h w], w [o c kh kw]
		c.add(s0, s0, Replicate)
		if some(b[1]) {
			c.add(s1, Replicate, s1)
		}
		if some(a[1]) {
			c.add(Partial(Sum), s1, s0)
		}
	case tensor.OpConv2DGradW: // x [n c h w], dy [n o h w]
		c.add(Partial(Sum), s0, s0)
		if some(b[1]) {
			c.add(s0, Replicate, s1)
		}
		if some(a[1]) {
			c.add(s1, s1, Replicate)
		}
	}
	c.linear()
}

// linear allows either operand to be partial.
func (c *call) linear() {
	for k := range c.sh {
		if !c.grows(k) {
			c.through(k, Sum, Mean)
		}
	}
}

// matmul of a [.., m, k] and b [.., k, n] moves nothing by rows, by columns and by the
// dims before; by the inner dim every rank has a term.
func (c *call) matmul() {
	a, b, o := len(c.sh[0]), len(c.sh[1]), len(c.out)
	for d := range o - 2 {
		c.add(Shard(d), c.broadcast(0, d), c.broadcast(1, d))
	}
	c.add(Shard(o-2), Shard(a-2), Replicate)
	c.add(Shard(o-1), Replicate, Shard(b-1))
	c.add(Partial(Sum), Shard(a-1), Shard(b-2))
	c.linear()
}
