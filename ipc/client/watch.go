package client

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
	"github.com/ringside-go/ringside/net/route"
)

// Watcher looks at a dispatcher and its workers again and again. A worker answers between two of its messages: one that runs a long
// program answers late, and one that hangs does not. It is used by one goroutine at a time.
type Watcher struct {
	conn ipc.Conn
	addr string
}

// NewWatcher connects to the dispatcher at addr. Of the options Transport, Secret and Logger are used.
func NewWatcher(ctx context.Context, options *Options, addr string) (*Watcher, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	conn, err := route.Dial(ctx, order(o.Transport), []string{addr}, &ipc.Options{
		Hello: ipc.Peer{Role: ipc.RoleControl, Name: "watcher"}, Secret: o.Secret, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Watcher{conn: conn, addr: addr}, nil
}

// AskDispatcher asks the dispatcher for its counters.
func (w *Watcher) AskDispatcher(ctx context.Context) error {
	m := wire.Status{}
	return w.send(ctx, wire.KindStatus, m.Size(), func(dst []byte) []byte { return wire.AppendStatus(dst, &m) })
}

// Ask asks the workers, or the one that m names. They measure from now on, and stop some seconds after they were last asked.
func (w *Watcher) Ask(ctx context.Context, m wire.Watch) error {
	return w.send(ctx, wire.KindWatch, m.Size(), func(dst []byte) []byte { return wire.AppendWatch(dst, &m) })
}

func (w *Watcher) send(ctx context.Context, kind uint32, n int, write func(dst []byte) []byte) error {
	buf, err := w.conn.Reserve(ctx, kind, n)
	if err == nil {
		write(buf[:0])
		err = w.conn.Commit()
	}
	if err != nil {
		return fmt.Errorf("client: dispatcher at %s: %w", w.addr, err)
	}
	return nil
}

// Next waits for an answer: a *wire.StatusReply of the dispatcher, or a *wire.Watched of a worker, in the order in which they come.
// The context's error if ctx is done before.
func (w *Watcher) Next(ctx context.Context) (answer any, err error) {
	msg, err := w.conn.Recv(ctx)
	if err != nil {
		return nil, fmt.Errorf("client: dispatcher at %s: %w", w.addr, err)
	}
	defer w.conn.Release()
	closeAll(msg.Files)
	switch msg.Kind {
	case wire.KindStatusReply:
		m := new(wire.StatusReply)
		answer, err = m, wire.ParseStatusReply(msg.Body, m)
	case wire.KindWatched:
		m := new(wire.Watched)
		answer, err = m, wire.ParseWatched(msg.Body, m)
	case wire.KindFail:
		var f wire.Fail
		if err = wire.ParseFail(msg.Body, &f); err == nil {
			err = lost(&f)
		}
	default:
		err = fmt.Errorf("%w: %s for a Watch", ipc.ErrCorrupt, wire.KindName(msg.Kind))
	}
	if err != nil {
		return nil, fmt.Errorf("client: dispatcher at %s: %w", w.addr, err)
	}
	return answer, nil
}

// Close hangs up.
func (w *Watcher) Close() error { return w.conn.Close() }
