package client

import (
	"context"

	"github.com/ringside-go/ringside/ipc/wire"
)

// Watcher looks at a dispatcher and its workers again and again. A worker answers between two of its messages: one that runs a long
// program answers late, and one that hangs does not. It is used by one goroutine at a time.
type Watcher struct{ control }

// NewWatcher connects to the dispatcher at addr. Of the options Transport, Secret and Logger are used.
func NewWatcher(ctx context.Context, options *Options, addr string) (*Watcher, error) {
	c, err := dialControl(ctx, options, addr, "watcher")
	if err != nil {
		return nil, err
	}
	return &Watcher{c}, nil
}

// AskDispatcher asks the dispatcher for its counters.
func (w *Watcher) AskDispatcher(ctx context.Context) error { return w.askStatus(ctx) }

// Ask asks the workers, or the one that m names. They measure from now on, and stop some seconds after they were last asked.
func (w *Watcher) Ask(ctx context.Context, m wire.Watch) error {
	return w.send(ctx, wire.KindWatch, m.Size(), func(dst []byte) []byte { return wire.AppendWatch(dst, &m) })
}

// Next waits for an answer: a *wire.StatusReply of the dispatcher, or a *wire.Watched of a worker, in the order in which they come.
// The context's error if ctx is done before.
func (w *Watcher) Next(ctx context.Context) (answer any, err error) {
	err = w.recv(ctx, func(kind uint32, body []byte) (bool, error) {
		switch kind {
		case wire.KindStatusReply:
			m := new(wire.StatusReply)
			answer = m
			return true, wire.ParseStatusReply(body, m)
		case wire.KindWatched:
			m := new(wire.Watched)
			answer = m
			return true, wire.ParseWatched(body, m)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}
