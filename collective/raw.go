package collective

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
)

// Raw is a collective on bytes whose element type is known only when it runs. A worker
// that carries out a plan made for tensors calls it instead of the functions with a type.
type Raw struct {
	Kind  protocol.Kind     // any but Barrier
	Op    element.Reduction // of AllReduce, Reduce and ReduceScatter; not Mean
	DType element.DType
	Peer  int // the root, or the other rank of a Send or Recv
	// a Send or Recv is one with a tag, as SendTag and RecvTag are
	Tagged bool
	Tag    uint32
	// what a reduction multiplies its result by before it rounds; 1 for most
	Scale float64

	// Dst and Src are aligned for elements of DType. They overlap only as the functions
	// with a type allow.
	Dst, Src []byte

	// Send holds elements by rank of Src, for ReduceScatter, Scatter and AllToAll; Recv
	// of Dst, for AllGather, Gather and AllToAll. nil: parts of one length.
	Send, Recv []int
}

// Start starts the call; see AllReduceAsync, AllToAllVAsync and the others. The Work has
// the error of wrong arguments.
func (r *Raw) Start(ctx context.Context, g *Group) *Work {
	q, err := r.request()
	if err != nil {
		return failed(err)
	}
	if r.Tagged {
		return g.tags.start(ctx, &q, r.Tag)
	}
	return g.begin(ctx, &q)
}

// Do makes the call and waits for its end.
func (r *Raw) Do(ctx context.Context, g *Group) error {
	q, err := r.request()
	if err != nil {
		return err
	}
	if r.Tagged {
		_, err = g.tags.do(ctx, &q, r.Tag)
		return err
	}
	return g.do(ctx, &q)
}

// request checks what the functions with a type need not check.
func (r *Raw) request() (protocol.Request, error) {
	q := protocol.Request{Dst: r.Dst, Src: r.Src, Peer: r.Peer, Call: protocol.Call{Kind: r.Kind, DType: r.DType}}
	if !r.DType.Valid() || !r.Op.Valid() {
		return q, fmt.Errorf("%w: %v of %v", ErrOp, r.Op, r.DType)
	}
	if r.Tagged && !r.Kind.Paired() {
		return q, fmt.Errorf("%w: %v with a tag, expected a send or receive", ErrOp, r.Kind)
	}
	size := r.DType.Size()
	if len(r.Dst)%size != 0 || len(r.Src)%size != 0 {
		return q, fmt.Errorf("%w: %v of %d bytes into %d, expected multiples of %d",
			ErrLength, r.Kind, len(r.Src), len(r.Dst), size)
	}
	q.Call.Count = int64(max(len(r.Dst), len(r.Src)) / size)
	switch r.Kind {
	case protocol.AllReduce, protocol.Reduce:
	case protocol.Broadcast, protocol.Send, protocol.Recv:
		if len(r.Src) > 0 {
			return q, fmt.Errorf("%w: %v of %d bytes into %d, expected one buffer, Dst", ErrLength, r.Kind, len(r.Src), len(r.Dst))
		}
	case protocol.ReduceScatter, protocol.Scatter:
		q.Counts = r.Send
	case protocol.AllGather, protocol.Gather:
		q.Counts = r.Recv
	case protocol.AllToAll:
		q.Counts, q.Recv = r.Send, r.Recv
	default:
		return q, fmt.Errorf("%w: %v is not a raw call", ErrOp, r.Kind)
	}
	if r.Kind.Folds() {
		q.Call.Op, q.Call.Scale = r.Op, r.Scale
	}
	return q, nil
}
