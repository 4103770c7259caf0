package nn

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/spmd"
)

// BroadcastState gives root's parameters, or other state such as an optimizer's, to all
// ranks of g. If a rank has other names, dtypes or shapes than root, every rank gets an
// ErrRanks that names the first difference, nothing is changed, and the group works
// on.
func BroadcastState(ctx context.Context, g *collective.Group, root int, ps []tensor.Named) error {
	mine := make([]string, len(ps))
	for i, p := range ps {
		mine[i] = fmt.Sprintf("%s %v%v", p.Name, p.T.DType(), p.T.Shape())
	}
	roots := mine
	if err := collective.BroadcastObject(ctx, g, &roots, root); err != nil {
		return err
	}
	said, err := collective.AllGatherObject(ctx, g, difference(mine, roots))
	if err != nil {
		return err
	}
	for r, s := range said {
		if s != "" {
			return fmt.Errorf("%w: rank %d and rank %d, the root: %s", ErrRanks, r, root, s)
		}
	}
	return spmd.Broadcast(ctx, g, root, Tensors(ps)...)
}

// difference says where two lists of parameters differ first; it is empty where they are
// the same.
func difference(mine, roots []string) string {
	for i := range max(len(mine), len(roots)) {
		switch {
		case i == len(mine):
			return fmt.Sprintf("%d parameters, without %s", len(mine), roots[i])
		case i == len(roots):
			return fmt.Sprintf("%s, which the root lacks", mine[i])
		case mine[i] != roots[i]:
			return fmt.Sprintf("parameter %d is %s, the root's %s", i, mine[i], roots[i])
		}
	}
	return ""
}

// DataParallel keeps a model the same on ranks that each compute the gradients of their
// own part of a batch.
type DataParallel struct {
	group  *collective.Group
	params []tensor.Named
}

// NewDataParallel gives rank 0's parameters of m to all ranks of g; see BroadcastState.
func NewDataParallel(ctx context.Context, g *collective.Group, m Module) (*DataParallel, error) {
	d := &DataParallel{g, m.Params()}
	if err := BroadcastState(ctx, g, 0, d.params); err != nil {
		return nil, err
	}
	return d, nil
}

// Average assigns the mean over all ranks to grads, which are those of the module's
// parameters in order, as autograd.Grad or Grads returns them. They travel in buckets,
// with the same bits as one by one. A gradient that is nil on some ranks is taken for
// zeros there, and the mean stands in its place; one that is nil on all ranks stays nil.
func (d *DataParallel) Average(ctx context.Context, grads []*tensor.Tensor) error {
	if len(grads) != len(d.params) {
		return fmt.Errorf("%w: %d gradients of %d parameters", collective.ErrLength, len(grads), len(d.params))
	}
	has := make([]uint8, len(grads))
	for i, x := range grads {
		if x != nil {
			has[i] = 1
		}
	}
	if err := collective.AllReduce(ctx, d.group, has, has, collective.Max); err != nil {
		return err
	}
	var all []*tensor.Tensor
	for i, p := range d.params {
		if has[i] == 0 {
			continue
		}
		if grads[i] == nil {
			grads[i] = tensor.Zeros(p.T.Session(), p.T.DType(), p.T.Shape()...)
		}
		all = append(all, grads[i])
	}
	return spmd.AllReduce(ctx, d.group, collective.Mean, all...)
}
