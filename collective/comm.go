package collective

import (
	"context"

	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/shm"
)

// comm moves and folds bytes among ranks 0..n-1: the method set of host.Comm and wide.Comm, and of what this package
// composes of them. counts are bytes by rank, scale multiplies a folded element before it is rounded. One goroutine at a
// time calls a comm, but any may call Abort. After its first error a comm is dead.
type comm interface {
	AllReduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte) error
	Reduce(ctx context.Context, call plan.Call, scale float64, dst, src []byte, root int) error
	ReduceScatter(ctx context.Context, call plan.Call, scale float64, dst, src []byte, counts []int) error
	AllGather(ctx context.Context, call plan.Call, dst, src []byte, counts []int) error
	Broadcast(ctx context.Context, call plan.Call, buf []byte, root int) error
	Scatter(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error
	Gather(ctx context.Context, call plan.Call, dst, src []byte, counts []int, root int) error
	AllToAll(ctx context.Context, call plan.Call, dst, src []byte, sendCounts, recvCounts []int) error
	Barrier(ctx context.Context, call plan.Call) error
	Send(ctx context.Context, call plan.Call, to int, b []byte) error
	Recv(ctx context.Context, call plan.Call, from int, b []byte) error

	Abort(err error) // every rank's calls fail, now and later
	Close() error
}

// allocator is a comm that gives memory which the others on its host can read in place, and has them read what was shown to them there.
type allocator interface {
	Alloc(n int) ([]byte, error)
	Free(b []byte) error
	Show(s *shm.Segment) error
	Stats() host.Stats
}

// solo is a comm of one rank: what it reduces and gathers is its own.
type solo struct{}

func (solo) AllReduce(_ context.Context, _ plan.Call, _ float64, dst, src []byte) error {
	copy(dst, src)
	return nil
}

func (solo) Reduce(_ context.Context, _ plan.Call, _ float64, dst, src []byte, _ int) error {
	copy(dst, src)
	return nil
}

func (solo) ReduceScatter(_ context.Context, _ plan.Call, _ float64, dst, src []byte, _ []int) error {
	copy(dst, src)
	return nil
}

func (solo) AllGather(_ context.Context, _ plan.Call, dst, src []byte, _ []int) error {
	copy(dst, src)
	return nil
}

func (solo) Broadcast(context.Context, plan.Call, []byte, int) error { return nil }

func (solo) Scatter(_ context.Context, _ plan.Call, dst, src []byte, _ []int, _ int) error {
	copy(dst, src)
	return nil
}

func (solo) Gather(_ context.Context, _ plan.Call, dst, src []byte, _ []int, _ int) error {
	copy(dst, src)
	return nil
}

func (solo) AllToAll(_ context.Context, _ plan.Call, dst, src []byte, _, _ []int) error {
	copy(dst, src)
	return nil
}

func (solo) Barrier(context.Context, plan.Call) error           { return nil }
func (solo) Send(context.Context, plan.Call, int, []byte) error { return nil } // a group keeps what is sent to oneself
func (solo) Recv(context.Context, plan.Call, int, []byte) error { return nil }
func (solo) Abort(error)                                        {}
func (solo) Close() error                                       { return nil }
