package shard

import "github.com/ringside-go/ringside/tensor"

// rows are numbers that a loss of sharded rows needs.
type rows struct {
	here  Value // bool: has this rank rows that count?
	share Value // the rank's part of all rows that count
}

// targets are what rows are counted by.
type targets struct {
	y      Value
	layout Layout
	ignore int64
}

// counted are the numbers of rows on this rank and on all.
type counted struct{ here, all Value }

func scalarShape(int) tensor.Shape { return tensor.Shape{} }

// count finds out how many rows count on this rank and on all: a collective of one number, made once for a loss and its gradient.
func (w *rewriter) count(i int, d tensor.DType, y Value, lay Layout, shape tensor.Shape) rows {
	ignore := w.p.IntsOf(i)[0]
	key := targets{y, lay, ignore}
	known, ok := w.counts[key]
	if !ok {
		rowShape := func(r int) tensor.Shape { return w.mesh.shape(lay, shape, r) }
		v := w.op(i, tensor.OpNe, tensor.Bool, rowShape, nil, of(y), number(float64(ignore)))
		known.here = w.op(i, tensor.OpSum, tensor.I64, scalarShape, []int64{0}, of(v))
		terms := lay
		for k, p := range lay {
			if p.kind == sharded {
				terms[k] = Partial(Sum)
			}
		}
		x := &tensorState{dt: tensor.I64, have: []version{{terms, known.here}}, full: -1, name: "the number of rows that count"}
		known.all = w.want(x, Layout{}, i)
		w.counts[key] = known
	}
	here := w.op(i, tensor.OpGt, tensor.Bool, scalarShape, nil, of(known.here), number(0))
	cast := func(v Value) Value { return w.op(i, tensor.OpCast, d, scalarShape, []int64{int64(d)}, of(v)) }
	share := w.op(i, tensor.OpDiv, d, scalarShape, nil, of(cast(known.here)), of(cast(known.all)))
	return rows{here, share}
}

// lowerLoss returns the mean over this rank's rows that count, times their part of all: the ranks' terms of the mean over all.
// Without such a row here the mean is NaN, and the term 0, or NaN where no rank has any.
func (w *rewriter) lowerLoss(i int, x []*tensorState, ins []Layout, args []Value) Value {
	d := x[0].dt
	n := w.count(i, d, args[1], ins[1], x[1].shape)
	loss := w.op(i, tensor.OpCrossEntropy, d, scalarShape, w.p.IntsOf(i), of(args[0]), of(args[1]))
	loss = w.op(i, tensor.OpWhere, d, scalarShape, nil, of(n.here), of(loss), number(0))
	return w.op(i, tensor.OpMul, d, scalarShape, nil, of(loss), of(n.share))
}

// lowerLossGrad returns the gradient as if this rank's rows were all, times their part of all.
func (w *rewriter) lowerLossGrad(i int, x []*tensorState, ins []Layout, args []Value, l Layout) Value {
	d := x[0].dt
	n := w.count(i, d, args[1], ins[1], x[1].shape)
	shape := func(r int) tensor.Shape { return w.mesh.shape(l, x[0].shape, r) }
	dy := w.op(i, tensor.OpMul, d, scalarShape, nil, of(args[2]), of(n.share))
	g := w.op(i, tensor.OpCrossEntropyGrad, d, shape, w.p.IntsOf(i), of(args[0]), of(args[1]), of(dy))
	return w.op(i, tensor.OpWhere, d, shape, nil, of(n.here), of(g), number(0))
}
