package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// control is a connection to a dispatcher without a session. One goroutine at a time uses
// it.
type control struct {
	conn ipc.Conn
	addr string
}

// dialControl connects to the dispatcher at addr under that name. It uses the options
// Transport, Secret and Logger.
func dialControl(ctx context.Context, options *Options, addr, name string) (control, error) {
	o, err := options.withDefaults()
	if err != nil {
		return control{}, err
	}
	conn, err := route.Dial(ctx, order(o.Transport), []string{addr}, &ipc.Options{
		Hello: ipc.Peer{Role: ipc.RoleControl, Name: name}, Secret: o.Secret, Logger: o.Logger,
	})
	return control{conn, addr}, err
}

// at says whose error it is.
func (c *control) at(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("client: dispatcher at %s: %w", c.addr, err)
}

// askStatus asks for the dispatcher's counters.
func (c *control) askStatus(ctx context.Context) error {
	return c.send(ctx, wire.KindStatus, &wire.Status{})
}

// send sends a message. It ignores that the dispatcher has closed the connection: recv
// returns that error, or the dispatcher's reason.
func (c *control) send(ctx context.Context, kind uint32, m wire.Message) error {
	body := wire.Append(nil, m)
	buf, err := c.conn.Reserve(ctx, kind, len(body))
	if err == nil {
		copy(buf, body)
		err = c.conn.Commit()
	}
	if errors.Is(err, ipc.ErrPeerGone) {
		return nil
	}
	return c.at(err)
}

// recv waits for an answer and calls parse, which returns false for a kind that it does
// not know. A Fail of the dispatcher is an error.
func (c *control) recv(ctx context.Context, parse func(kind uint32, body []byte) (known bool, err error)) error {
	msg, err := c.conn.Recv(ctx)
	if err != nil {
		return c.at(err)
	}
	defer c.conn.Release()
	ipc.CloseFiles(msg.Files)
	if msg.Kind == wire.KindFail {
		var f wire.Fail
		if err = wire.Parse(msg.Body, &f); err == nil {
			err = lost(&f)
		}
		return c.at(err)
	}
	known, err := parse(msg.Kind, msg.Body)
	if !known {
		err = fmt.Errorf("%w: %s, which was not asked for", ipc.ErrCorrupt, wire.KindName(msg.Kind))
	}
	return c.at(err)
}

// Close hangs up.
func (c *control) Close() error { return c.conn.Close() }
