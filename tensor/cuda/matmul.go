package cuda

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// gemms are the dtypes in which products of a dtype are computed. Bytes wrap in 32 bits
// as well.
var gemms = map[tensor.DType]tensor.DType{
	tensor.F32: tensor.F32, tensor.F64: tensor.F64, tensor.I32: tensor.I32, tensor.I64: tensor.I64, tensor.U8: tensor.I32,
}

// smallRows is how many rows or columns a product has at most that is made an element a
// thread, and smallSize how many elements: tiles would be mostly empty, or too few.
const (
	smallRows = 16
	smallSize = 4096
)

// gemmSpeed is about how many products a GPU adds up in the time of one element of an
// elementwise kernel.
const gemmSpeed = 32

// matrices are an operand of a product: the strides of a matrix, and those of the dims
// before it.
type matrices struct {
	o       compile.Operand
	row     int
	column  int
	strides []int
}

func matricesOf(o compile.Operand, batch tensor.Shape) matrices {
	n := len(o.Shape)
	head := compile.Operand{Shape: o.Shape[:n-2], Strides: o.Strides[:n-2]}
	return matrices{o, o.Strides[n-2], o.Strides[n-1], head.Broadcast(batch)}
}

// product adds out = a b. out is dense.
func (k *kernel) product(out, a, b compile.Operand) {
	d, ok := gemms[out.DType]
	if !ok {
		k.host = true
		return
	}
	if byLibrary(k, out, a, b) {
		return
	}
	last := len(out.Shape) - 2
	batch, m, n := out.Shape[:last], out.Shape[last], out.Shape[last+1]
	depth := a.Shape[len(a.Shape)-1]
	c := out
	if out.DType != d {
		c = k.temp(d, out.Shape)
	}
	sides := [2]matrices{}
	for i, o := range []compile.Operand{a, b} {
		if o.DType != d {
			o = k.dense(o, d)
		}
		sides[i] = matricesOf(o, batch)
	}
	// The matrices, and from one to the next.
	count, steps := batch.Elems(), stepsOf(k, &sides, batch)
	if count > 1 && steps[1] == 0 && steps[0] == m*sides[0].row {
		m, count = m*count, 1 // one b for all: more rows of one product
	}
	work := (m*n + gemmSpeed - 1) / gemmSpeed * max(depth, 1) * count
	name, x, y := "gemm_", (n+63)/64, (m+63)/64
	if m <= smallRows || n <= smallRows || m*n <= smallSize {
		name, x, y = "gemm_small_", (m*n+255)/256, 1
	}
	if m*n >= ptx.MaxElems {
		k.host = true // the kernels count in 32 bits
		return
	}
	k.call("gemm", name+d.String(), work, x, y, count, sides[0].o, sides[1].o, c, uint32(m), uint32(n), uint32(depth),
		uint64(sides[0].row), uint64(sides[0].column), uint64(steps[0]), uint64(sides[1].row), uint64(sides[1].column), uint64(steps[1]))
	if out.DType != d {
		k.copy(out, c)
	}
}

// stepsOf returns the elements from a matrix of a batch to the next, for both operands.
// It adds copies to k where these are not the same everywhere.
func stepsOf(k *kernel, sides *[2]matrices, batch tensor.Shape) (steps [2]int) {
	steps, ok := joined(batch, sides[0].strides, sides[1].strides)
	if ok {
		return steps
	}
	for i := range sides {
		o := sides[i].o
		t := k.temp(o.DType, append(append(tensor.Shape{}, batch...), o.Shape[len(o.Shape)-2:]...))
		k.copy(t, o)
		sides[i] = matricesOf(t, batch)
		steps[i] = t.Shape[len(batch)] * t.Shape[len(batch)+1]
	}
	return steps
}

// joined returns the strides of two operands over the dims of shape as one dim, and
// whether they have one.
func joined(shape tensor.Shape, a, b []int) (steps [2]int, ok bool) {
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		switch {
		case shape[i] == 1:
			continue
		case n == 1:
			steps = [2]int{a[i], b[i]}
		case a[i] != steps[0]*n || b[i] != steps[1]*n:
			return steps, false
		}
		n *= shape[i]
	}
	return steps, true
}
