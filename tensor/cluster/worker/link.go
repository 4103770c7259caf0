package worker

import (
	"context"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
)

// link is how values get from a worker to one of another stage, beside their pipe.
type link struct {
	device.Link // nil: by the pipe and host memory
	obstacle    device.Obstacle

	// last is the transfer that was started last, nil for none. Its flight ends after
	// those of all transfers before it.
	last *flight
}

// flight is a transfer from GPU to GPU that runs beside programs.
type flight struct {
	done   chan struct{} // closed at the end, after which the others are read
	broken error         // of the pipe, which ends the session
	err    error         // of this worker
}

// connectLink finds out whether a pipe's values can go from GPU to GPU. Both workers
// learn the same.
func (t *team) connectLink(ctx context.Context, pipe *collective.Group) (*link, error) {
	linker, can := t.worker.dev.(device.Linker)
	meet, l := meetings(ctx, pipe), &link{}
	var err error
	if l.obstacle, err = capable(pipe, can, meet); err == nil && l.obstacle == device.None {
		l.Link, l.obstacle, err = linker.Link(pipe.Rank(), meet)
	}
	return l, err
}

// run runs a transfer in a goroutine, after those that were started before.
func (l *link) run(ctx context.Context, x device.Transfer, pipe *collective.Group) *flight {
	before, f := l.last, &flight{done: make(chan struct{})}
	l.last = f
	go func() {
		defer close(f.done)
		if before != nil {
			<-before.done
		}
		err := x.Run(meetIn(pipe.Size(), func(r *collective.Raw) error {
			f.broken = r.Do(ctx, pipe)
			return f.broken
		}))
		if f.broken == nil {
			f.err = err
		}
	}()
	return f
}

// transferNear starts a transfer from GPU to GPU.
func (c *carrier) transferNear(ctx context.Context, x *shard.Collective, ids []uint64, failed error) ([]movement, error) {
	pair, m := [2]int(x.Group), &x.Moves[0]
	pipe, l := c.pipes[pair], c.links[pair]
	u := movement{group: pipe, near: true, began: c.monitor.now()}
	move := device.Collective{Kind: x.Kind, DType: x.DType, Shape: m.OutShape}
	if x.Kind == protocol.Send {
		move.Shape, move.In = m.InShape, ids[m.In]
		c.sends(&u, pipe, int64(m.InShape.Elems()*x.DType.Size()))
		c.traffic.byPeer++
	} else if q, ok := c.space.(*limited); ok && failed == nil {
		failed = q.room(m.OutShape.Elems()*x.DType.Size(), "result")
	}
	move.Failed = failed != nil
	t, err := l.Start(c.own, &move)
	if failed == nil {
		failed = err
	}
	u.pending, u.flight = t, l.run(ctx, t, pipe)
	return []movement{u}, failed
}
