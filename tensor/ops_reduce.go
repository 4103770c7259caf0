package tensor

// Reductions reduce the given dims, counted from the end if negative, or all dims if none
// is given. Sum drops the dims, SumKeep leaves them with size 1; the others likewise.

func (t *Tensor) reduce(op Op, keep bool, dims []int) *Tensor {
	ints, wrong := t.axes(op, append(make([]int64, 0, 1+MaxRank), int64(flag(keep))), dims...)
	if wrong != nil {
		return wrong
	}
	return t.v.s.Apply(op, ints, T(t))
}

// wrong returns a sticky error of an operation on t.
func (t *Tensor) wrong(op Op, err error) *Tensor { return t.wrongName(op.String(), err) }

func (t *Tensor) wrongName(op string, err error) *Tensor {
	s := t.v.s
	if s == nil {
		return poisoned(nil, &OpError{Op: op, Inputs: "nil", Site: callSite(), Err: ErrNil})
	}
	if e := s.enter(op); e != nil {
		return poisoned(s, e)
	}
	defer s.leave()
	return poisoned(s, s.fail(&OpError{Op: op, Inputs: t.v.String(), Site: callSite(), Err: err}))
}

// Sum returns the sum over dims; integers and bools sum as i64.
func (t *Tensor) Sum(dims ...int) *Tensor { return t.reduce(OpSum, false, dims) }

// SumKeep is Sum with the dims kept as 1.
func (t *Tensor) SumKeep(dims ...int) *Tensor { return t.reduce(OpSum, true, dims) }

// Mean returns the mean over dims.
func (t *Tensor) Mean(dims ...int) *Tensor { return t.reduce(OpMean, false, dims) }

// MeanKeep is Mean with the dims kept as 1.
func (t *Tensor) MeanKeep(dims ...int) *Tensor { return t.reduce(OpMean, true, dims) }

// Max returns the largest over dims; equal values share its gradient.
func (t *Tensor) Max(dims ...int) *Tensor { return t.reduce(OpAmax, false, dims) }

// MaxKeep is Max with the dims kept as 1.
func (t *Tensor) MaxKeep(dims ...int) *Tensor { return t.reduce(OpAmax, true, dims) }

// Min returns the smallest over dims.
func (t *Tensor) Min(dims ...int) *Tensor { return t.reduce(OpAmin, false, dims) }

// MinKeep is Min with the dims kept as 1.
func (t *Tensor) MinKeep(dims ...int) *Tensor { return t.reduce(OpAmin, true, dims) }

// Prod returns the product over dims.
func (t *Tensor) Prod(dims ...int) *Tensor { return t.reduce(OpProd, false, dims) }

// ProdKeep is Prod with the dims kept as 1.
func (t *Tensor) ProdKeep(dims ...int) *Tensor { return t.reduce(OpProd, true, dims) }

// Any reports whether any bool over dims is true.
func (t *Tensor) Any(dims ...int) *Tensor { return t.reduce(OpAny, false, dims) }

// All reports whether all bools over dims are true.
func (t *Tensor) All(dims ...int) *Tensor { return t.reduce(OpAll, false, dims) }

// Argmax returns the index of the first largest along dim, as i64.
func (t *Tensor) Argmax(dim int) *Tensor { return t.reduce(OpArgmax, false, []int{dim}) }

// Argmin returns the index of the first smallest along dim, as i64.
func (t *Tensor) Argmin(dim int) *Tensor { return t.reduce(OpArgmin, false, []int{dim}) }

// ArgmaxAll returns the index of the first largest element in row-major order.
func (t *Tensor) ArgmaxAll() *Tensor { return t.reduce(OpArgmax, false, nil) }

// Var returns the variance over dims, with the divisor n-correction, or 0 if that is
// negative, as in PyTorch.
func (t *Tensor) Var(correction float64, dims ...int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	x := t.wide()
	m := x.Sub(x.MeanKeep(dims...)).Square().Sum(dims...)
	if m.v.failed() != nil {
		return m.poison()
	}
	n := float64(t.Elems()) / float64(max(m.Elems(), 1))
	return m.DivS(max(n-correction, 0)).narrow(t.v.dtype)
}

// LogSumExp returns log(sum(exp(t))) over one dim, without overflow; -Inf over a dim of
// size 0.
func (t *Tensor) LogSumExp(dim int) *Tensor {
	if t.v.failed() != nil {
		return t.poison()
	}
	x := t.wide()
	if t.Dim(dim) == 0 {
		return x.Exp().Sum(dim).Log().narrow(t.v.dtype)
	}
	m := x.MaxKeep(dim).Detach()
	if x.v.dtype.IsFloat() {
		m = m.MaskedFill(m.Abs().EqS(Inf), 0) // Inf - Inf would be NaN
	}
	return x.Sub(m).Exp().Sum(dim).Log().Add(m.Squeeze(dim)).narrow(t.v.dtype)
}

// wide returns t as the operand of several operations whose result is rounded once: in
// the type in which they compute.
func (t *Tensor) wide() *Tensor { return t.Cast(t.v.dtype.Wide()) }

// narrow rounds t, which was computed from wide operands, to their common dtype d if that
// is for storage only.
func (t *Tensor) narrow(d DType) *Tensor {
	if d.IsStorage() {
		return t.Cast(d)
	}
	return t
}

// Cumsum returns the running sum along dim; that of integers and bools is i64.
func (t *Tensor) Cumsum(dim int) *Tensor {
	ints, wrong := t.axes(OpCumsum, nil, dim)
	if wrong != nil {
		return wrong
	}
	return t.v.s.Apply(OpCumsum, append(ints, 0), T(t))
}

// Softmax returns e^t divided by its sum along dim.
func (t *Tensor) Softmax(dim int) *Tensor { return t.onDim(OpSoftmax, dim) }

// LogSoftmax returns the logarithm of Softmax, without overflow.
func (t *Tensor) LogSoftmax(dim int) *Tensor { return t.onDim(OpLogSoftmax, dim) }
