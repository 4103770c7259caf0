package compile

import "github.com/ringside-go/ringside/tensor"

// view returns the result of view instruction i on x: another shape, strides and offset
// over the same buffer. Only a reshape that no strides express adds a copy.
func (b *builder) view(i int, x Operand) Operand {
	in := &b.p.Instrs[i]
	ints := b.p.IntsOf(i)
	shape := b.p.Shapes[in.Shape]
	v := Operand{Scalar: -1, Buf: x.Buf, DType: x.DType, Shape: shape, Off: x.Off}
	switch in.Op {
	case tensor.OpBarrier:
		v.Strides = x.Strides
	case tensor.OpReshape:
		st, ok := reshape(x.Shape, x.Strides, shape)
		if !ok {
			d := b.dense(i, x)
			v.Buf, v.Off, st = d.Buf, d.Off, shape.Strides()
		}
		v.Strides = st
	case tensor.OpPermute:
		v.Strides = make([]int, len(shape))
		for k, d := range ints {
			v.Strides[k] = x.Strides[d]
		}
	case tensor.OpExpand:
		v.Strides = make([]int, len(shape))
		skip := len(shape) - len(x.Shape)
		for k := range x.Shape {
			if x.Shape[k] == shape[skip+k] {
				v.Strides[skip+k] = x.Strides[k]
			}
		}
	case tensor.OpSlice:
		v.Strides = make([]int, len(shape))
		for k := range shape {
			start, step := int(ints[3*k]), int(ints[3*k+1])
			if shape[k] > 0 {
				v.Off += start * x.Strides[k]
			}
			v.Strides[k] = step * x.Strides[k]
		}
	}
	v.Dense = dense(shape, v.Strides)
	return v
}

// dense reports whether strides are those of a contiguous tensor. Strides of dims of size
// 1 do not matter, and none matter if there are no elements.
func dense(shape tensor.Shape, strides []int) bool {
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] == 0 {
			return true
		}
		if shape[i] != 1 && strides[i] != n {
			return false
		}
		n *= shape[i]
	}
	return true
}

// reshape returns strides for shape over the elements of (old, strides) in row-major
// order, if they exist. It merges dims of old that are contiguous to each other; shape
// may divide only merged dims.
func reshape(old tensor.Shape, strides []int, shape tensor.Shape) ([]int, bool) {
	if shape.Elems() == 0 {
		return shape.Strides(), true
	}
	out := make([]int, len(shape))
	j := len(shape) - 1
	for i := len(old) - 1; i >= 0; {
		if old[i] == 1 {
			i--
			continue
		}
		size, inner := old[i], strides[i] // a run of joined dims
		for i--; i >= 0 && (old[i] == 1 || strides[i] == inner*size); i-- {
			if old[i] != 1 {
				size *= old[i]
			}
		}
		for st := inner; size > 1; j-- {
			if j < 0 || size%shape[j] != 0 {
				return nil, false
			}
			out[j] = st
			st *= shape[j]
			size /= shape[j]
		}
	}
	for ; j >= 0; j-- {
		out[j] = 1 // dims of 1
	}
	return out, true
}
