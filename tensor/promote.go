package tensor

import "math"

// promote inserts casts so that the operands in r.inf have one dtype. args are the
// operands as given. The dtype is that of the operands with dims, unless those without
// are of a higher kind, as in PyTorch.
func (r *recording) promote(op Op, args []Arg) {
	c := &r.inf
	if alike(c.dt) {
		return
	}
	skip := op.Info().apart - 1
	want, scalars, fraction := Invalid, false, false
	point := Invalid                         // of operands without dims
	least, most := math.Inf(1), math.Inf(-1) // of the scalars
	for i, d := range c.dt {
		switch {
		case i == skip:
		case d == Invalid:
			f := args[i].f
			scalars, fraction = true, fraction || f != math.Trunc(f) || math.IsNaN(f)
			least, most = min(least, f), max(most, f)
		case len(c.sh[i]) == 0:
			point = joint(point, d)
		default:
			want = joint(want, d)
		}
	}
	if kind(point) > kind(want) {
		want = point
	}
	if want == Invalid {
		return // no tensors: inference returns the error, if it is one
	}
	if scalars && want == Bool && !fraction && op != OpEq && op != OpNe {
		want = I64
	}
	switch {
	case !scalars || want.IsFloat():
	case fraction:
		want = F32
	case holds(want, least) && holds(want, most):
	case op.Info().Kind == KindComparison:
		want = F64 // which distinguishes all I32 values
	default:
		want = F32
	}
	if !want.IsFloat() && op.Info().Float {
		want = F32
	}
	for i, d := range c.dt {
		if i != skip && d != Invalid && d != want {
			r.args[i], c.dt[i] = r.cast(r.args[i], c.sh[i], want), want
		}
	}
}

// alike reports whether all are one float type, as most operands are.
func alike(dt []DType) bool {
	for _, d := range dt {
		if d != dt[0] {
			return false
		}
	}
	return len(dt) > 0 && dt[0].IsFloat()
}

// joint is Promote; Invalid stands for no operand yet.
func joint(a, b DType) DType {
	if a == Invalid {
		return b
	}
	return Promote(a, b)
}

// kind returns 1 for Bool, 2 for integers, 3 for floats, and 0 for no dtype.
func kind(d DType) int {
	switch {
	case d == Invalid:
		return 0
	case d == Bool:
		return 1
	case !d.IsFloat():
		return 2
	}
	return 3
}

// onBools returns the operation that op is on bools.
func onBools(op Op) Op {
	switch op {
	case OpAdd, OpMax:
		return OpOr
	case OpMul, OpMin:
		return OpAnd
	}
	return op
}

// cast inserts a cast of one operand. The cast is not in the graph: the edge leads to the
// operand itself, and autograd casts its gradient back.
func (r *recording) cast(of Ref, dims Shape, to DType) Ref {
	shape := r.shapes.of(dims)
	i := r.instr(OpCast, []int64{int64(to)}, []Ref{of}, to, shape)
	r.hide(i, to, shape)
	return i
}

// widen casts operands that are for storage only to their wide types if op computes, and
// sets a leaf's dtype to that. It returns the type that the result is rounded to, or
// Invalid.
func (r *recording) widen(op Op) DType {
	if movesHalves(op) {
		return Invalid
	}
	c := &r.inf
	switch op {
	case OpFull, OpArange, OpRand, OpRandN, OpOneHot:
		if len(c.ints) > 0 && validDType(c.ints[0]) && DType(c.ints[0]).IsStorage() {
			d := DType(c.ints[0])
			c.ints[0] = int64(d.Wide())
			return d
		}
		return Invalid
	}
	narrow := Invalid
	// The last cast: an operand that occurs twice mostly does so in a row.
	var from, to Ref
	for i, d := range c.dt {
		if !d.IsStorage() {
			continue
		}
		if narrow == Invalid || r.args[i] != from {
			from = r.args[i]
			to = r.cast(from, c.sh[i], d.Wide())
		}
		narrow, r.args[i], c.dt[i] = d, to, d.Wide()
	}
	return narrow
}
