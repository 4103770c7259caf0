package shard

import "github.com/ringside-go/ringside/tensor"

// rows holds the vars that a loss of sharded rows needs. A row counts unless its target
// is ignored.
type rows struct {
	here  Var // a bool: the rank has rows that count
	share Var // the rank's part of all rows that count
}

// targets identifies a count of rows.
type targets struct {
	y      Var
	layout Layout
	ignore int64
}

// counted holds the number of rows that count on this rank and on all ranks.
type counted struct{ here, all Var }

func scalarShape(int) tensor.Shape { return tensor.Shape{} }

// count adds the operations that count the rows on this rank and, by a collective of one
// number, on all ranks. A loss and its gradient share them.
func (w *rewriter) count(i int, d tensor.DType, y Var, lay Layout, shape tensor.Shape) rows {
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
	cast := func(v Var) Var { return w.op(i, tensor.OpCast, d, scalarShape, []int64{int64(d)}, of(v)) }
	share := w.op(i, tensor.OpDiv, d, scalarShape, nil, of(cast(known.here)), of(cast(known.all)))
	return rows{here, share}
}

// lowerLoss adds the mean over the rank's rows that count, times the rank's part of all
// rows: the rank's term of the mean over all. A rank without such a row has NaN as its
// mean and 0 as its term; if no rank has a row, the term is NaN.
func (w *rewriter) lowerLoss(i int, x []*tensorState, ins []Layout, args []Var) Var {
	d := x[0].dt
	n := w.count(i, d, args[1], ins[1], x[1].shape)
	loss := w.op(i, tensor.OpCrossEntropy, d, scalarShape, w.p.IntsOf(i), of(args[0]), of(args[1]))
	loss = w.op(i, tensor.OpWhere, d, scalarShape, nil, of(n.here), of(loss), number(0))
	return w.op(i, tensor.OpMul, d, scalarShape, nil, of(loss), of(n.share))
}

// lowerLossGrad adds the gradient of the loss of this rank's rows, times the rank's part
// of all rows.
func (w *rewriter) lowerLossGrad(i int, x []*tensorState, ins []Layout, args []Var, l Layout) Var {
	d := x[0].dt
	n := w.count(i, d, args[1], ins[1], x[1].shape)
	shape := func(r int) tensor.Shape { return w.mesh.shape(l, x[0].shape, r) }
	dy := w.op(i, tensor.OpMul, d, scalarShape, nil, of(args[2]), of(n.share))
	g := w.op(i, tensor.OpCrossEntropyGrad, d, shape, w.p.IntsOf(i), of(args[0]), of(args[1]), of(dy))
	return w.op(i, tensor.OpWhere, d, shape, nil, of(n.here), of(g), number(0))
}
