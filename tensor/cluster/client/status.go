package client

import (
	"context"

	"github.com/ringside-go/ringside/ipc/wire"
)

// Monitor asks a dispatcher for its counters. It is used by one goroutine at a time.
type Monitor struct {
	control
	reply wire.StatusReply
}

// NewMonitor connects to the dispatcher at addr. Of the options Transport, Secret and Logger are used.
func NewMonitor(ctx context.Context, options *Options, addr string) (*Monitor, error) {
	c, err := dialControl(ctx, options, addr, "monitor")
	if err != nil {
		return nil, err
	}
	return &Monitor{control: c}, nil
}

// Status returns the counters as they are now: see dispatcher.Stats, and worker.NAME.sessions and
// its like for every worker. What it returns is good until the next call.
func (m *Monitor) Status(ctx context.Context) (*wire.StatusReply, error) {
	if err := m.askStatus(ctx); err != nil {
		return nil, err
	}
	err := m.recv(ctx, func(kind uint32, body []byte) (bool, error) {
		if kind != wire.KindStatusReply {
			return false, nil
		}
		return true, wire.ParseStatusReply(body, &m.reply)
	})
	if err != nil {
		return nil, err
	}
	return &m.reply, nil
}

// Status asks the dispatcher at addr once, with the options of NewMonitor.
func Status(ctx context.Context, options *Options, addr string) (*wire.StatusReply, error) {
	m, err := NewMonitor(ctx, options, addr)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Status(ctx)
}
