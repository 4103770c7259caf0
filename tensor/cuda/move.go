package cuda

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// copy adds kernels that copy from to to, which they may cast and broadcast. A generated
// kernel reads in the order of to. Where elements that lie side by side in from don't in
// to, that is a sector of memory for each element, so these go through tiles first.
func (k *kernel) copy(to, from compile.Operand) {
	x, ok := exchangeOf(to, from)
	if !ok {
		k.tiles(elementwise(tensor.OpCast, to, from))
		return
	}
	if to.DType == from.DType {
		x.add(k, to, from)
		return
	}
	t := k.temp(from.DType, to.Shape)
	k.copy(t, from)
	k.tiles(elementwise(tensor.OpCast, to, t))
}

// exchange is a copy that exchanges two dims: the one along which the source lies in one
// piece, its columns, and the one along which the target does, its rows. Strides are in
// elements.
type exchange struct {
	rows, columns int
	row, toRow    int // from one row of the source, and of the target, to the next
	dims          [exchangeDims]int
	from, to      [exchangeDims]int // the strides of dims
}

// exchangeDims is the number of other dims that the kernels of transposes have.
const exchangeDims = 3

// minExchange is the fewest rows and columns of an exchange. A generated kernel reads
// less of them from sectors that it has read before.
const minExchange = 8

// exchangeOf returns the exchange that copies from to to, and whether there is one.
func exchangeOf(to, from compile.Operand) (x exchange, ok bool) {
	if from.Scalar >= 0 {
		return x, false
	}
	var dims, in, out []int
	strides := from.Broadcast(to.Shape)
	for i, n := range to.Shape {
		last := len(dims) - 1
		switch {
		case n == 1:
		case last >= 0 && in[last] == strides[i]*n && out[last] == to.Strides[i]*n:
			dims[last], in[last], out[last] = dims[last]*n, strides[i], to.Strides[i]
		default:
			dims, in, out = append(dims, n), append(in, strides[i]), append(out, to.Strides[i])
		}
	}
	others := exchangeDims
	for i := len(dims) - 1; i >= 0; i-- {
		n := dims[i]
		switch {
		case in[i] == 1 && out[i] != 1 && x.columns == 0:
			x.columns, x.toRow = n, out[i]
		case out[i] == 1 && in[i] != 1 && in[i] != 0 && x.rows == 0:
			x.rows, x.row = n, in[i]
		case others == 0:
			return x, false
		default:
			others--
			x.dims[others], x.from[others], x.to[others] = n, in[i], out[i]
		}
	}
	for i := range others {
		x.dims[i] = 1
	}
	return x, x.rows >= minExchange && x.columns >= minExchange
}

// exchangeTile is the number of rows and columns that a block of an exchange moves.
const exchangeTile = 32

// add adds the kernel of the exchange to k.
func (x *exchange) add(k *kernel, to, from compile.Operand) {
	blocks := (x.rows + exchangeTile - 1) / exchangeTile * ((x.columns + exchangeTile - 1) / exchangeTile)
	for _, n := range x.dims {
		blocks *= n
	}
	args := []any{from, to, uint32(x.rows), uint32(x.columns), uint32(x.dims[1]), uint32(x.dims[2]), uint64(x.row)}
	for _, n := range x.from {
		args = append(args, uint64(n))
	}
	args = append(args, uint64(x.toRow))
	for _, n := range x.to {
		args = append(args, uint64(n))
	}
	k.call("move", fmt.Sprint("transpose_b", 8*to.DType.Size()), to.Shape.Elems(), blocks, 1, 1, args...)
}

// full adds a kernel that fills out with a scalar.
func (k *kernel) full(out, x compile.Operand) {
	to := out
	if out.DType.IsStorage() { // which no parameter has
		to = k.temp(out.DType.Wide(), tensor.Shape{})
	}
	k.tiles(elementwise(tensor.OpFull, to, x))
	if out.DType.IsStorage() {
		k.copy(out, to)
	}
}

// pad adds a fill of the result and a copy of the operand into it.
func (k *kernel) pad(s *compile.Step) {
	k.full(s.Out, s.In[1])
	to := s.Out
	to.Shape, to.Dense = s.In[0].Shape, false
	for i, st := range s.Out.Strides {
		to.Off += int(s.Ints[2*i]) * st
	}
	k.copy(to, s.In[0])
}

// concat adds copies of the operands into the result.
func (k *kernel) concat(s *compile.Step) {
	dim, at := int(s.Ints[0]), 0
	for _, x := range s.In {
		to := s.Out
		to.Shape, to.Dense = x.Shape, false
		to.Off += at * s.Out.Strides[dim]
		k.copy(to, x)
		at += x.Shape[dim]
	}
}
