package cuda

import (
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// A block of threads folds at most rowPart elements of a row, or columnPart rows.
const (
	rowPart    = 8192
	columnPart = 1024
)

// fold is how a reduction computes: the dtype and the kernel without its dtype.
type fold struct {
	d    tensor.DType
	name string
}

// wide returns the dtype in which elements of d are folded: smaller integers become i64,
// bools 0 and 1.
func wide(d tensor.DType) tensor.DType {
	if d.IsFloat() {
		return d
	}
	return tensor.I64
}

// foldOf returns how op reduces elements of dtype d.
func foldOf(op tensor.Op, d tensor.DType) (f fold, ok bool) {
	f.d = wide(d)
	switch op {
	case tensor.OpSum:
		f.name = "sum"
	case tensor.OpMean:
		f.name = "sum"
		if f.d == tensor.I64 {
			f.d = tensor.F64
		}
	case tensor.OpProd:
		f.name = "prod"
	case tensor.OpAmax, tensor.OpAny:
		f.name = "max"
	case tensor.OpAmin, tensor.OpAll:
		f.name = "min"
	}
	return f, f.name != "" && !d.IsStorage()
}

// reduction adds op of x over dims; an empty list is all dims. out is dense.
func (k *kernel) reduction(op tensor.Op, out, x compile.Operand, dims []int64) {
	f, ok := foldOf(op, x.DType)
	switch {
	case op == tensor.OpArgmax || op == tensor.OpArgmin:
		k.place(op, out, x, dims)
		return
	case !ok:
		k.host = true
		return
	}
	count := x.Shape.Elems() / out.Shape.Elems()
	switch {
	case count == 0 && op == tensor.OpAny:
		f.name = "sum" // of no elements it is 0, and max of none has no value
	case count == 0 && op == tensor.OpAll:
		f.name = "prod"
	}
	scale := 1.0
	if op == tensor.OpMean {
		scale = 1 / float64(count)
	}
	to := out
	if to.DType != f.d {
		to = k.temp(f.d, out.Shape)
	}
	if outer, rows, columns, ok := middle(x, dims); ok && f.name == "sum" && f.d == x.DType && f.d.IsFloat() && columns > 1 && outer <= maxGrid {
		k.columns(to, x, outer, rows, columns, scale)
	} else {
		k.rows(f, to, k.arranged(x, f.d, dims), count, scale)
	}
	if to.DType != out.DType {
		k.copy(out, to)
	}
}

// middle reports whether x is dense and has the form outer x rows x columns, of which a
// reduction over dims folds the rows, and returns these sizes.
func middle(x compile.Operand, dims []int64) (outer, rows, columns int, ok bool) {
	outer, rows, columns = 1, 1, 1
	for i, n := range x.Shape {
		folds := len(dims) == 0 || slices.Contains(dims, int64(i))
		switch {
		case n == 1:
		case folds && columns > 1:
			return 0, 0, 0, false
		case folds:
			rows *= n
		case rows > 1:
			columns *= n
		default:
			outer *= n
		}
	}
	return outer, rows, columns, x.Dense
}

// prodGrad adds the gradient of a product over dims: dy, which has one element for each
// result, times the product of all other elements.
func (k *kernel) prodGrad(s *compile.Step) {
	d := s.Out.DType
	if k.host = !real(d); k.host {
		return
	}
	x, dims := s.In[0], s.Ints
	in, to := k.arranged(x, d, dims), arrange(s.Out, dims)
	out := to
	if _, _, columns, ok := middle(s.Out, dims); !ok || columns > 1 {
		out = k.temp(d, to.Shape)
	}
	results := s.In[1].Shape.Elems()
	columns := x.Shape.Elems() / results
	k.row("reduce", "prod_grad_"+d.String(), results, columns, in, k.dense(s.In[1], d), out, k.temp(tensor.F64, to.Shape), uint32(columns))
	if out.Buf != to.Buf {
		k.copy(to, out)
	}
}

// arranged returns x in dtype d with the elements of each result of a reduction over dims
// one after another: x itself, or a copy.
func (k *kernel) arranged(x compile.Operand, d tensor.DType, dims []int64) compile.Operand {
	if _, _, columns, ok := middle(x, dims); ok && columns == 1 && x.DType == d {
		return x
	}
	v := arrange(x, dims)
	t := k.temp(d, v.Shape)
	k.copy(t, v)
	return t
}

// arrange returns the view of x whose last dims are those that a reduction over dims
// folds.
func arrange(x compile.Operand, dims []int64) compile.Operand {
	v := x
	v.Shape, v.Strides, v.Dense = nil, nil, false
	for _, folds := range []bool{false, true} {
		for i, n := range x.Shape {
			if folds == (len(dims) == 0 || slices.Contains(dims, int64(i))) {
				v.Shape, v.Strides = append(v.Shape, n), append(v.Strides, x.Strides[i])
			}
		}
	}
	return v
}

// rows adds a fold of rows of count elements, in parts if they are long.
func (k *kernel) rows(f fold, to, x compile.Operand, count int, scale float64) {
	results := to.Shape.Elems()
	last := to
	parts := max(1, (count+rowPart-1)/rowPart)
	if parts > 1 {
		to = k.temp(f.d, tensor.Shape{results, parts})
	}
	add := func(to, x compile.Operand, count, part, parts int, scale float64) {
		args := []any{x, to, uint32(count), uint32(part)}
		if f.name == "sum" {
			args = append(args, number(f.d, scale))
		}
		k.call("reduce", f.name+"_"+f.d.String(), results*count, results, parts, 1, args...)
	}
	if parts == 1 {
		add(to, x, count, count, 1, scale)
		return
	}
	add(to, x, count, rowPart, parts, 1)
	k.rows(f, last, to, parts, scale)
}

// columns adds sums of rows of columns, in parts if there are many.
func (k *kernel) columns(to, x compile.Operand, outer, rows, columns int, scale float64) {
	parts := max(1, (rows+columnPart-1)/columnPart)
	add := func(to compile.Operand, part int, scale float64) {
		k.call("reduce", "sum_columns_"+to.DType.String(), outer*rows*columns, (columns+31)/32, parts, outer, x, to, uint32(rows), uint32(columns), uint32(part),
			number(to.DType, scale))
	}
	if parts == 1 {
		add(to, rows, scale)
		return
	}
	t := k.temp(to.DType, tensor.Shape{outer, parts, columns})
	add(t, columnPart, 1)
	k.columns(to, t, outer, parts, columns, scale)
}

// number returns x as an argument of dtype d.
func number(d tensor.DType, x float64) any {
	switch d {
	case tensor.F32:
		return math.Float32bits(float32(x))
	case tensor.F64:
		return math.Float64bits(x)
	}
	return uint64(int64(x))
}

// maxPlaces is the most elements of a row in which a kernel looks for the place of the
// largest or smallest.
const maxPlaces = 1 << 22

// place adds argmax or argmin.
func (k *kernel) place(op tensor.Op, out, x compile.Operand, dims []int64) {
	results := out.Shape.Elems()
	count := x.Shape.Elems() / results
	d := wide(x.DType)
	if d.IsStorage() || count > maxPlaces {
		k.host = true
		return
	}
	x = k.arranged(x, d, dims)
	at := k.temp(tensor.I32, out.Shape)
	k.call("reduce", op.String()+"_"+d.String(), results*count, results, 1, 1, x, at, uint32(count))
	k.copy(out, at)
}

// tilesFold adds a chain of elementwise operations and the reduction of its result.
func (k *kernel) tilesFold(s *compile.Step) {
	var shape tensor.Shape
	for _, o := range s.In {
		if o.Scalar < 0 {
			shape = o.Shape
		}
	}
	last := len(s.Body) - 1
	chain := &compile.Step{Instr: s.Instr, Fused: compile.Tiles, In: s.In, Out: k.temp(s.Body[last].DType, shape), Body: slices.Clone(s.Body)}
	chain.Body[last].Out = 0
	k.tiles(chain)
	k.reduction(s.Op, s.Out, chain.Out, s.Ints[1:])
}
