package client

import (
	"context"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Monitor asks a dispatcher for its counters. One goroutine at a time uses it.
type Monitor struct{ control }

// NewMonitor connects to the dispatcher at addr. It uses the options Transport, Secret
// and Logger.
func NewMonitor(ctx context.Context, options *Options, addr string) (*Monitor, error) {
	c, err := dialControl(ctx, options, addr, "monitor")
	if err != nil {
		return nil, err
	}
	return &Monitor{c}, nil
}

// Status returns the dispatcher's counters: those of dispatcher.Stats, and for each
// worker worker.NAME.sessions and others.
func (m *Monitor) Status(ctx context.Context) (Counters, error) {
	if err := m.askStatus(ctx); err != nil {
		return nil, err
	}
	var reply wire.StatusReply
	err := m.recv(ctx, func(kind uint32, body []byte) (bool, error) {
		if kind != wire.KindStatusReply {
			return false, nil
		}
		return true, wire.Parse(body, &reply)
	})
	if err != nil {
		return nil, err
	}
	return countersOf(reply.Counters), nil
}

// Status asks the dispatcher at addr once, with the options of NewMonitor.
func Status(ctx context.Context, options *Options, addr string) (Counters, error) {
	m, err := NewMonitor(ctx, options, addr)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Status(ctx)
}
