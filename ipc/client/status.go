package client

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ipc/wire"
)

// Monitor asks a dispatcher for its counters. It is used by one goroutine at a time.
type Monitor struct {
	conn  ipc.Conn
	addr  string
	reply wire.StatusReply
}

// NewMonitor connects to the dispatcher at addr; a nil transport is the local one.
func NewMonitor(ctx context.Context, transport ipc.Transport, addr string) (*Monitor, error) {
	if transport == nil {
		transport = local.New()
	}
	conn, err := transport.Dial(ctx, addr, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleControl, Name: "monitor"}})
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

// Status asks the dispatcher at addr once; a nil transport is the local one.
func Status(ctx context.Context, transport ipc.Transport, addr string) (*wire.StatusReply, error) {
	m, err := NewMonitor(ctx, transport, addr)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Status(ctx)
}
