package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// errAsked is the cause when a part is asked to end.
var errAsked = errors.New("asked to end")

// goroutine starts a part in this process.
func (c *Cluster) goroutine(child Child) (*part, error) {
	serve, err := c.server(child)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	p := &part{pid: os.Getpid(), done: make(chan struct{})}
	p.stop = func(time.Duration) { cancel(errAsked) }
	go func() {
		defer close(p.done)
		p.err = serve(ctx)
	}()
	return p, nil
}

// server makes a dispatcher or a worker.
func (c *Cluster) server(child Child) (func(context.Context) error, error) {
	if child.Role == RoleWorker {
		o := &worker.Options{Name: child.Name, Logger: c.log}
		if c.o.Worker != nil {
			var err error
			if o, err = c.o.Worker(child.Name); err != nil {
				return nil, fmt.Errorf("cluster: %s: %w", child, err)
			}
		}
		if o.TLS == nil {
			t, err := child.TLS.Read()
			if err != nil {
				return nil, err
			}
			o.TLS = t
		}
		w, err := worker.New(o)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return w.Serve(ctx, child.Addr) }, nil
	}
	o := c.o.Dispatcher
	o = cmp.Or(o, &dispatcher.Options{Logger: c.log})
	return listen(o, child)
}

// listen makes a dispatcher that listens at the addresses of child, and returns a
// function that runs it.
func listen(options *dispatcher.Options, child Child) (serve func(context.Context) error, err error) {
	o := *options
	if child.SecretFile != "" {
		if o.Secret, err = ipc.ReadSecret(child.SecretFile); err != nil {
			return nil, err
		}
	}
	if o.TLS == nil {
		if o.TLS, err = child.TLS.Read(); err != nil {
			return nil, err
		}
	}
	d, err := dispatcher.New(&o)
	if err != nil {
		return nil, err
	}
	l, err := local.New().Listen(child.Addr, d.ListenOptions())
	if err != nil {
		return nil, err
	}
	listeners := []ipc.Listener{l}
	if child.ListenTCP != "" {
		far, err := tcp.New().Listen(child.ListenTCP, d.ListenOptions())
		if err != nil {
			l.Close()
			return nil, err
		}
		listeners = append(listeners, far)
	}
	return func(ctx context.Context) error { return d.Serve(ctx, listeners...) }, nil
}
