package spmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// Broadcast assigns root's values to the tensors of every rank, which have the same
// shapes and dtypes in the same order.
func Broadcast(ctx context.Context, g *collective.Group, root int, ts ...*tensor.Tensor) error {
	for _, t := range ts {
		buf, err := bytesOf(t)
		if err != nil {
			return err
		}
		if err := move(ctx, g, protocol.Broadcast, t.DType(), root, buf, nil); err != nil {
			return err
		}
		if g.Rank() == root {
			continue
		}
		if err := assign(t, buf); err != nil {
			return err
		}
	}
	return nil
}

// AllGather returns the tensors of all ranks, joined along dim 0 in rank order. t has the
// same shape and dtype on all ranks. Numbers without dims become a vector.
func AllGather(ctx context.Context, g *collective.Group, t *tensor.Tensor) (*tensor.Tensor, error) {
	src, err := bytesOf(t)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, len(src)*g.Size())
	if err := move(ctx, g, protocol.AllGather, t.DType(), 0, dst, src); err != nil {
		return nil, err
	}
	return result(t, dst, joined(t.Shape(), g.Size()))
}

// Gather returns the tensors of all ranks to root, joined as AllGather joins them, and
// nil to the others.
func Gather(ctx context.Context, g *collective.Group, t *tensor.Tensor, root int) (*tensor.Tensor, error) {
	src, err := bytesOf(t)
	if err != nil {
		return nil, err
	}
	var dst []byte
	if g.Rank() == root {
		dst = make([]byte, len(src)*g.Size())
	}
	if err := move(ctx, g, protocol.Gather, t.DType(), root, dst, src); err != nil || g.Rank() != root {
		return nil, err
	}
	return result(t, dst, joined(t.Shape(), g.Size()))
}

// Scatter cuts root's src along dim 0 into a part for each rank and assigns them to the
// dst of the ranks in order. dst has the same shape and dtype on all ranks, src is what
// AllGather makes of such a shape; the others' src is not used and may be nil.
func Scatter(ctx context.Context, g *collective.Group, dst, src *tensor.Tensor, root int) error {
	if err := dst.Err(); err != nil {
		return err
	}
	var parts []byte
	if g.Rank() == root {
		if src == nil {
			return fmt.Errorf("%w: root %d of a scatter has no src", collective.ErrLength, root)
		}
		if want := joined(dst.Shape(), g.Size()); src.Err() == nil && (!src.Shape().Equal(want) || src.DType() != dst.DType()) {
			return fmt.Errorf("%w: a scatter of %v into %v on %d ranks, expected %v%v", collective.ErrLength, src, dst, g.Size(), dst.DType(), want)
		}
		var err error
		if parts, err = bytesOf(src); err != nil {
			return err
		}
	}
	buf := make([]byte, dst.Elems()*dst.DType().Size())
	if err := move(ctx, g, protocol.Scatter, dst.DType(), root, buf, parts); err != nil {
		return err
	}
	return assign(dst, buf)
}

// AllToAll cuts t along dim 0 into a part for each rank and returns the parts that the
// ranks have for this one, joined in rank order. t has the same shape and dtype on all
// ranks, and dim 0 is a multiple of the group's size.
func AllToAll(ctx context.Context, g *collective.Group, t *tensor.Tensor) (*tensor.Tensor, error) {
	if err := divides(g, t); err != nil {
		return nil, err
	}
	src, err := bytesOf(t)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, len(src))
	if err := move(ctx, g, protocol.AllToAll, t.DType(), 0, dst, src); err != nil {
		return nil, err
	}
	return result(t, dst, t.Shape())
}

// ReduceScatter reduces the tensors of all ranks and returns this rank's part of the
// result, cut along dim 0. t has the same shape and dtype on all ranks, one of those that
// AllReduce takes, and dim 0 is a multiple of the group's size.
func ReduceScatter(ctx context.Context, g *collective.Group, op collective.Op, t *tensor.Tensor) (*tensor.Tensor, error) {
	if err := divides(g, t); err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.F32:
		return reduceScatter[float32](ctx, g, op, t)
	case tensor.F64:
		return reduceScatter[float64](ctx, g, op, t)
	case tensor.I32:
		return reduceScatter[int32](ctx, g, op, t)
	case tensor.I64:
		return reduceScatter[int64](ctx, g, op, t)
	case tensor.U8:
		return reduceScatter[uint8](ctx, g, op, t)
	}
	return nil, fmt.Errorf("%w: a tensor of %v", collective.ErrOp, t.DType())
}

func reduceScatter[T float32 | float64 | int32 | int64 | uint8](ctx context.Context, g *collective.Group, op collective.Op, t *tensor.Tensor) (*tensor.Tensor, error) {
	src, err := tensor.Data[T](t)
	if err != nil {
		return nil, err
	}
	dst := make([]T, len(src)/g.Size())
	if err := collective.ReduceScatter(ctx, g, dst, src, op); err != nil {
		return nil, err
	}
	shape := slices.Clone(t.Shape())
	shape[0] /= g.Size()
	r := tensor.From(t.Session(), dst, shape...)
	return r, r.Err()
}

// move makes a call that moves elements and computes nothing.
func move(ctx context.Context, g *collective.Group, kind protocol.Kind, d tensor.DType, root int, dst, src []byte) error {
	if d == tensor.Bool {
		d = tensor.U8
	}
	r := collective.Raw{Kind: kind, DType: d, Peer: root, Dst: dst, Src: src}
	return r.Do(ctx, g)
}

// bytesOf returns a copy of a tensor's bytes.
func bytesOf(t *tensor.Tensor) (buf []byte, err error) {
	err = t.ViewBytes(func(b []byte) error {
		buf = append(make([]byte, 0, len(b)), b...)
		return nil
	})
	return buf, err
}

// assign gives t the elements in buf.
func assign(t *tensor.Tensor, buf []byte) error {
	v, err := tensor.FillLike(t, func(dst []byte) error {
		copy(dst, buf)
		return nil
	})
	if err != nil {
		return err
	}
	t.Session().NoGrad(func() { err = t.Assign(v) })
	v.Free()
	return err
}

// result returns a tensor in the session of t.
func result(t *tensor.Tensor, buf []byte, shape tensor.Shape) (*tensor.Tensor, error) {
	r := tensor.FromBytes(t.Session(), t.DType(), buf, shape...)
	return r, r.Err()
}

// joined returns the shape of n tensors along dim 0.
func joined(s tensor.Shape, n int) tensor.Shape {
	if len(s) == 0 {
		return tensor.Shape{n}
	}
	s = slices.Clone(s)
	s[0] *= n
	return s
}

// divides returns an error unless dim 0 of t has a part for each rank.
func divides(g *collective.Group, t *tensor.Tensor) error {
	switch {
	case t.Err() != nil:
		return t.Err()
	case t.Rank() == 0 || t.Dim(0)%g.Size() != 0:
		return fmt.Errorf("%w: %v among %d ranks, expected dim 0 to be a multiple", collective.ErrLength, t, g.Size())
	}
	return nil
}
