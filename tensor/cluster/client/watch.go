package client

import (
	"context"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Watcher asks a dispatcher and its workers repeatedly for their counters and events. A
// worker answers between two of its messages: one that runs a long program answers late,
// and one that hangs does not answer. One goroutine at a time uses a Watcher.
type Watcher struct{ control }

// NewWatcher connects to the dispatcher at addr. It uses the options Transport, Secret
// and Logger.
func NewWatcher(ctx context.Context, options *Options, addr string) (*Watcher, error) {
	c, err := dialControl(ctx, options, addr, "watcher")
	if err != nil {
		return nil, err
	}
	return &Watcher{c}, nil
}

// Question is what a Watcher asks workers.
type Question struct {
	Worker string // the worker asked; empty: all
	Events bool   // also wants events
	Since  uint64 // number of the first event wanted
}

// AskDispatcher asks the dispatcher for its counters.
func (w *Watcher) AskDispatcher(ctx context.Context) error { return w.askStatus(ctx) }

// Ask asks the workers. They measure from now on, and stop some seconds after they were
// last asked.
func (w *Watcher) Ask(ctx context.Context, q Question) error {
	m := wire.Watch{Worker: q.Worker, Events: q.Events, Since: q.Since}
	return w.send(ctx, wire.KindWatch, &m)
}

// Next waits for the next answer: Counters of the dispatcher, or a *WorkerReport. It
// returns ctx's error if ctx is done before.
func (w *Watcher) Next(ctx context.Context) (answer any, err error) {
	err = w.recv(ctx, func(kind uint32, body []byte) (bool, error) {
		switch kind {
		case wire.KindStatusReply:
			var m wire.StatusReply
			err := wire.Parse(body, &m)
			answer = countersOf(m.Counters)
			return true, err
		case wire.KindWatched:
			var m wire.Watched
			err := wire.Parse(body, &m)
			answer = reportOf(&m)
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}
