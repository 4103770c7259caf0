package client

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/net/route"
)

// Monitor asks a dispatcher for its counters. It is used by one goroutine at a time.
type Monitor struct {
	conn  ipc.Conn
	addr  string
	reply wire.StatusReply
}

// NewMonitor connects to the dispatcher at addr. Of the options Transport, Secret and Logger are used.
func NewMonitor(ctx context.Context, options *Options, addr string) (*Monitor, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := route.Dial(ctx, order(o.Transport), []string{addr}, &ipc.Options{
		Hello: ipc.Peer{Role: ipc.RoleControl, Name: "monitor"}, Secret: o.Secret, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Monitor{conn: conn, addr: addr}, nil
}

// Status returns the counters as they are now: see dispatcher.Stats, and worker.NAME.sessions and
// its like for every worker. What it returns is good until the next call.
func (m *Monitor) Status(ctx context.Context) (*wire.StatusReply, error) {
	ask := wire.Status{}
	buf, err := m.conn.Reserve(ctx, wire.KindStatus, ask.Size())
	if err != nil {
		return nil, fmt.Errorf("client: dispatcher at %s: %w", m.addr, err)
	}
	wire.AppendStatus(buf[:0], &ask)
	if err := m.conn.Commit(); err != nil {
		return nil, fmt.Errorf("client: dispatcher at %s: %w", m.addr, err)
	}
	msg, err := m.conn.Recv(ctx)
	if err != nil {
		return nil, fmt.Errorf("client: dispatcher at %s: %w", m.addr, err)
	}
	defer m.conn.Release()
	closeAll(msg.Files)
	switch msg.Kind {
	case wire.KindStatusReply:
		err = wire.ParseStatusReply(msg.Body, &m.reply)
	case wire.KindFail:
		var f wire.Fail
		if err = wire.ParseFail(msg.Body, &f); err == nil {
			err = lost(&f)
		}
	default:
		err = fmt.Errorf("%w: %s for a Status", ipc.ErrCorrupt, wire.KindName(msg.Kind))
	}
	if err != nil {
		return nil, fmt.Errorf("client: dispatcher at %s: %w", m.addr, err)
	}
	return &m.reply, nil
}

// Close hangs up.
func (m *Monitor) Close() error { return m.conn.Close() }

// Status asks the dispatcher at addr once, with the options of NewMonitor.
func Status(ctx context.Context, options *Options, addr string) (*wire.StatusReply, error) {
	m, err := NewMonitor(ctx, options, addr)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Status(ctx)
}
