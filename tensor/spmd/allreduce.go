package spmd

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
)

// AllReduce reduces the tensors over all ranks of g and assigns the results to them, for
// example gradients by collective.Mean. It waits for the session that computes the
// tensors. They may be f32, f64, i32, i64 or u8, in any mix; every rank passes tensors of
// the same shapes and dtypes in the same order. They are bucketed by dtype, with the same
// bits as one by one. The error is collective.ErrOp for another dtype.
func AllReduce(ctx context.Context, g *collective.Group, op collective.Op, ts ...*tensor.Tensor) error {
	for _, t := range ts {
		switch t.DType() {
		case tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8:
		default:
			return fmt.Errorf("%w: a tensor of %v", collective.ErrOp, t.DType())
		}
	}
	for _, reduce := range []func(context.Context, *collective.Group, collective.Op, []*tensor.Tensor) error{
		tensorsOf[float32], tensorsOf[float64], tensorsOf[int32], tensorsOf[int64], tensorsOf[uint8],
	} {
		if err := reduce(ctx, g, op, ts); err != nil {
			return err
		}
	}
	return nil
}

// tensorsOf reduces the tensors of element type T and ignores the others.
func tensorsOf[T float32 | float64 | int32 | int64 | uint8](ctx context.Context, g *collective.Group, op collective.Op, ts []*tensor.Tensor) error {
	var mine []*tensor.Tensor
	var bufs [][]T
	for _, t := range ts {
		if t.DType() != tensor.DTypeOf[T]() {
			continue
		}
		data, err := tensor.Data[T](t)
		if err != nil {
			return err
		}
		mine, bufs = append(mine, t), append(bufs, data)
	}
	if len(mine) == 0 {
		return nil
	}
	if err := collective.AllReduceMany(ctx, g, op, bufs...); err != nil {
		return err
	}
	for i, t := range mine {
		sum := tensor.From(t.Session(), bufs[i], t.Shape()...)
		if err := t.Assign(sum); err != nil {
			return err
		}
		sum.Free()
	}
	return nil
}
