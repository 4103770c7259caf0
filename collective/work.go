package collective

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
)

// Work is a call that was started and not waited for. Any goroutine may call its methods.
type Work struct {
	ctx     context.Context
	request protocol.Request
	done    chan struct{}
	err     error // written before done is closed, as took is
	took    time.Duration
	from    int          // of a send or receive with a tag: the other rank
	waiting atomic.Int32 // callers of Wait

	help func(ctx context.Context) // what a caller of Wait does first; nil: nothing
}

// failed returns a Work that is done.
func failed(err error) *Work {
	w := &Work{done: make(chan struct{}), err: err}
	close(w.done)
	return w
}

// Wait returns the call's error once it is done. When ctx is done first it returns that
// error, and the call goes on.
func (w *Work) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	if w.help != nil {
		w.help(ctx)
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done returns a channel that is closed when the call is done.
func (w *Work) Done() <-chan struct{} { return w.done }

// Err returns the call's error once Done is closed, and nil before.
func (w *Work) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// Took returns how long the call ran, without the calls ahead of it, once Done is closed,
// and 0 before.
func (w *Work) Took() time.Duration {
	select {
	case <-w.done:
		return w.took
	default:
		return 0
	}
}

// From returns the sender of a receive with a tag, and the receiver of a send with one,
// once Done is closed, and AnyRank before.
func (w *Work) From() int {
	select {
	case <-w.done:
		return w.from
	default:
		return AnyRank
	}
}
