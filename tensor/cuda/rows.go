package cuda

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// rowSpeed is about how many elements of an elementwise kernel take the time of one of a
// kernel that goes over its rows several times.
const rowSpeed = 4

// alone is about how many elements of an elementwise kernel take the time of one that a
// thread computes after another.
const alone = 1 << 16

// row adds a kernel of the library with a block for each row of columns elements.
func (k *kernel) row(module, name string, rows, columns int, args ...any) {
	k.call(module, name, rowSpeed*rows*columns, rows, 1, 1, args...)
}

// scalar returns the scalar o as an argument of dtype d.
func scalar(d tensor.DType, o compile.Operand) ptx.Scalar {
	n := o.Scalar
	return ptx.NewScalar(d, func(s []float64) float64 { return s[n] })
}

// orNull returns the argument of an operand that may be missing.
func orNull(o *compile.Operand) any {
	if o == nil {
		return uint64(0)
	}
	return *o
}

var softmaxes = map[tensor.Op]string{
	tensor.OpSoftmax: "softmax_", tensor.OpLogSoftmax: "log_softmax_",
	tensor.OpSoftmaxGrad: "softmax_grad_", tensor.OpLogSoftmaxGrad: "log_softmax_grad_",
}

// atEnd returns o with dim d exchanged with the last one.
func atEnd(o compile.Operand, d int) compile.Operand {
	end := len(o.Shape) - 1
	if d == end {
		return o
	}
	o.Shape, o.Strides, o.Dense = slices.Clone(o.Shape), slices.Clone(o.Strides), false
	o.Shape[d], o.Shape[end] = o.Shape[end], o.Shape[d]
	o.Strides[d], o.Strides[end] = o.Strides[end], o.Strides[d]
	return o
}

// softmax adds an operation of softmaxes along a dim, which is moved to the end, or the
// softmax of rows that don't see what comes after them.
func (k *kernel) softmax(s *compile.Step) {
	d := s.Out.DType
	if k.host = !real(d); k.host {
		return
	}
	if s.Op == tensor.OpCausalSoftmax {
		x, last := k.dense(s.In[0], d), len(s.Out.Shape)-1
		rows, columns := s.Out.Shape[last-1], s.Out.Shape[last]
		k.row("softmax", "causal_softmax_"+d.String(), s.Out.Shape.Elems()/columns, columns, x, s.Out, uint32(rows), uint32(columns), scalar(d, s.In[1]))
		return
	}
	last := func(o compile.Operand) compile.Operand { return atEnd(o, int(s.Ints[0])) }
	var args []any
	for _, o := range s.In {
		args = append(args, k.dense(last(o), d))
	}
	to := last(s.Out)
	out := to
	if !to.Dense {
		out = k.temp(d, to.Shape)
	}
	columns := to.Shape[len(to.Shape)-1]
	k.row("softmax", softmaxes[s.Op]+d.String(), to.Shape.Elems()/columns, columns, append(args, out, uint32(columns))...)
	if !to.Dense {
		k.copy(to, out)
	}
}

// cumsum adds running sums along a dim, which is moved to the end, and turned round for
// sums from there.
func (k *kernel) cumsum(s *compile.Step) {
	d := wide(s.In[0].DType)
	if d.IsStorage() {
		k.host = true
		return
	}
	last := func(o compile.Operand) compile.Operand {
		o = atEnd(o, int(s.Ints[0]))
		if end := len(o.Shape) - 1; s.Ints[1] != 0 {
			o.Strides, o.Dense = slices.Clone(o.Strides), false
			o.Off += (o.Shape[end] - 1) * o.Strides[end]
			o.Strides[end] = -o.Strides[end]
		}
		return o
	}
	to := last(s.Out)
	out := to
	if !to.Dense {
		out = k.temp(d, to.Shape)
	}
	columns := to.Shape[len(to.Shape)-1]
	rows := to.Shape.Elems() / columns
	k.call("scan", "cumsum_"+d.String(), columns*max(rowSpeed*rows, alone/256), rows, 1, 1, k.dense(last(s.In[0]), d), out, uint32(columns))
	if !to.Dense {
		k.copy(to, out)
	}
}

// norm adds a norm of (x, w, b); w and b may be missing.
func (k *kernel) norm(s *compile.Step) {
	tensors := len(s.In) - 1
	rows, columns := normRows(s)
	d := s.Out.DType
	if k.host = !real(d); k.host {
		return
	}
	var weights [2]*compile.Operand
	for i := 1; i < tensors; i++ {
		weights[i-1] = &s.In[i]
	}
	x, eps := k.dense(s.In[0], d), scalar(d, s.In[tensors])
	if s.Op == tensor.OpLayerNorm {
		k.row("norm", "layernorm_"+d.String(), rows, columns, x, orNull(weights[0]), orNull(weights[1]), s.Out, uint32(columns), eps)
	} else {
		k.row("norm", "rmsnorm_"+d.String(), rows, columns, x, orNull(weights[0]), s.Out, uint32(columns), eps)
	}
}

// normRows returns the rows and columns of a norm's operand.
func normRows(s *compile.Step) (rows, columns int) {
	shape := s.In[0].Shape
	columns = shape[len(shape)-int(s.Ints[0]):].Elems()
	return shape.Elems() / columns, columns
}

// normGrad adds the gradients of a norm by its operand, its weight and its bias, each of
// which may be nil. eps is that of dx, epsW that of dw; w may be nil.
func (k *kernel) normGrad(s *compile.Step, w, dx, dw, db *compile.Operand, eps, epsW compile.Operand) {
	rows, columns := normRows(s)
	d := s.Out.DType
	if k.host = !real(d); k.host {
		return
	}
	name := "rmsnorm_grad_"
	if s.Op == tensor.OpLayerNormGradX || s.Op == tensor.OpLayerNormGradW {
		name = "layernorm_grad_"
	}
	x, dy := k.dense(s.In[0], d), k.dense(s.In[1], d)
	var products *compile.Operand
	if dw != nil {
		t := k.temp(d, tensor.Shape{rows, columns})
		products = &t
	}
	add := func(dx, products *compile.Operand, eps compile.Operand) {
		k.row("norm", name+d.String(), rows, columns, x, dy, orNull(w), orNull(dx), orNull(products), uint32(columns), scalar(d, eps))
	}
	switch {
	case dx != nil && dw != nil && eps.Scalar != epsW.Scalar:
		add(nil, products, epsW)
		add(dx, nil, eps)
	case dx != nil:
		add(dx, products, eps)
	default:
		add(nil, products, epsW)
	}
	if dw != nil {
		k.columns(*dw, *products, 1, rows, columns, 1)
	}
	if db != nil {
		k.columns(*db, dy, 1, rows, columns, 1)
	}
}

// normGrads adds a gradient of a norm, or several of one.
func (k *kernel) normGrads(s *compile.Step) {
	eps := s.In[len(s.In)-1]
	switch {
	case s.Fused == compile.NormGrad && s.Ints[1] != 0:
		k.normGrad(s, &s.In[2], &s.Out, &s.Also[0], &s.Also[1], s.In[3], eps)
	case s.Fused == compile.NormGrad:
		k.normGrad(s, &s.In[2], &s.Out, &s.Also[0], nil, s.In[3], eps)
	case s.Op == tensor.OpLayerNormGradW || s.Op == tensor.OpRMSNormGradW:
		k.normGrad(s, nil, nil, &s.Out, nil, eps, eps)
	case len(s.In) == 4:
		k.normGrad(s, &s.In[2], &s.Out, nil, nil, eps, eps)
	default:
		k.normGrad(s, nil, &s.Out, nil, nil, eps, eps)
	}
}

// rope adds a rotary embedding: halves a and b of a row become a cos - b sin and
// b cos + a sin, or those of the other direction.
func (k *kernel) rope(s *compile.Step) {
	x, cos, sin := s.In[0], s.In[1], s.In[2]
	last := len(x.Shape) - 1
	h := x.Shape[last] / 2
	half := func(o compile.Operand, i int) compile.Operand {
		o.Shape, o.Dense = slices.Clone(o.Shape), false
		o.Shape[last] = h
		o.Off += i * h * o.Strides[last]
		return o
	}
	a, b := half(x, 0), half(x, 1)
	first, second := tensor.OpSub, tensor.OpAdd
	if s.Ints[0] != 0 {
		first, second = second, first
	}
	for i, join := range []tensor.Op{first, second} {
		k.tiles(&compile.Step{
			Instr: s.Instr, Fused: compile.Tiles, In: []compile.Operand{a, b, cos, sin}, Out: half(s.Out, i),
			Body: []compile.Inst{
				{Op: tensor.OpMul, DType: x.DType, In: []int{i, 2}, Out: -1},
				{Op: tensor.OpMul, DType: x.DType, In: []int{1 - i, 3}, Out: -1},
				{Op: join, DType: x.DType, In: []int{-1, -2}, Out: 0},
			},
		})
	}
}
