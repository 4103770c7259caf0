package autograd

import "github.com/ringside-go/ringside/tensor"

func reshape(c *call, _ int) *tensor.Tensor { return withShape(c.dy, c.n.In[0].Shape()) }

func permute(c *call, _ int) *tensor.Tensor {
	var room [tensor.MaxRank]int
	back := room[:len(c.n.Ints)]
	for i, d := range c.n.Ints {
		back[d] = i
	}
	return c.dy.Permute(back...)
}

// slice pads the gradient with zeros, first between the elements if the step is not 1.
func slice(c *call, _ int) *tensor.Tensor {
	shape, g := c.x(0).Shape(), c.dy
	if g.Elems() == 0 {
		return c.zeros()
	}
	pads := make([][2]int, len(shape))
	padded := false
	for d, size := range shape {
		start, step, n := int(c.n.Ints[3*d]), int(c.n.Ints[3*d+1]), int(c.n.Ints[3*d+2])
		if n == 1 {
			step = 1
		}
		if step < 0 {
			g = g.Flip(d)
			start, step = start+(n-1)*step, -step
		}
		if step > 1 {
			g = spread(g, d, step)
			n *= step
			// zeros after the last element, beyond x
			if over := start + n - size; over > 0 {
				n -= over
				g = g.Narrow(d, 0, n)
			}
		}
		pads[d] = [2]int{start, size - start - n}
		padded = padded || n != size
	}
	if !padded {
		return g
	}
	return g.Pad(0, pads...)
}

// spread puts step-1 zeros after every element along dim.
func spread(g *tensor.Tensor, dim, step int) *tensor.Tensor {
	if g.Err() != nil {
		return g
	}
	inner := 1
	for _, n := range g.Shape()[dim+1:] {
		inner *= n
	}
	out := append([]int(nil), g.Shape()...)
	out[dim] *= step
	return g.Reshape(-1, 1, inner).Pad(0, [2]int{0, step - 1}, [2]int{}).Reshape(out...)
}

func concat(c *call, i int) *tensor.Tensor {
	dim := int(c.n.Ints[0])
	at := 0
	for k := range i {
		at += c.x(k).Dim(dim)
	}
	return c.dy.Narrow(dim, at, c.x(i).Dim(dim))
}

func pad(c *call, _ int) *tensor.Tensor {
	shape := c.x(0).Shape()
	r := make([]tensor.Range, len(shape))
	for d, n := range shape {
		before := int(c.n.Ints[2*d])
		r[d] = tensor.To(before, before+n)
	}
	return c.dy.Slice(r...)
}

func tri(c *call, _ int) *tensor.Tensor { return c.apply(c.n.Op, c.n.Ints, tensor.T(c.dy)) }

// zeros returns a zero gradient for input 0.
func (c *call) zeros() *tensor.Tensor {
	x := c.x(0)
	return tensor.Zeros(c.s, c.dy.DType(), x.Shape()...)
}

// indexSelect adds to the gradient that the input has already: a table with a second use
// (a tied embedding) is large.
func indexSelect(c *call, _ int) *tensor.Tensor {
	into := c.sum
	if c.added = into != nil; !c.added {
		into = c.zeros()
	}
	return c.apply(tensor.OpIndexAdd, c.n.Ints, tensor.T(into), c.arg(1), tensor.T(c.dy))
}

func indexAdd(c *call, i int) *tensor.Tensor {
	if i == 0 {
		return c.dy
	}
	return c.apply(tensor.OpIndexSelect, c.n.Ints, tensor.T(c.dy), c.arg(1))
}

func gather(c *call, _ int) *tensor.Tensor {
	return c.apply(tensor.OpScatterAdd, c.n.Ints, tensor.T(c.zeros()), c.arg(1), tensor.T(c.dy))
}

func scatterAdd(c *call, i int) *tensor.Tensor {
	if i == 0 {
		return c.dy
	}
	return c.apply(tensor.OpGather, c.n.Ints, tensor.T(c.dy), c.arg(1))
}
