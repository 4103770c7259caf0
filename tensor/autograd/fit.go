package autograd

import "github.com/ringside-go/ringside/tensor"

// fit returns g with the shape and dtype of an input that was broadcast and cast: it sums
// over the broadcast dims. A dim of size 1 on both sides costs nothing.
func fit(g *tensor.Tensor, shape tensor.Shape, d tensor.DType) *tensor.Tensor {
	if g.Err() != nil {
		return g
	}
	if have := g.Shape(); !have.Equal(shape) {
		if g.Elems() != shape.Elems() {
			g = g.Sum(stretched(have, shape)...)
		}
		if !g.Shape().Equal(shape) {
			g = g.Reshape(shape...)
		}
	}
	return g.Cast(d)
}

// stretched returns the dims of have that want lacks or has with size 1.
func stretched(have, want tensor.Shape) []int {
	lead := len(have) - len(want)
	var dims []int
	for i, n := range have {
		if i < lead || want[i-lead] == 1 && n != 1 {
			dims = append(dims, i)
		}
	}
	return dims
}
