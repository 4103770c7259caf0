package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringside-go/ringside/ipc/dispatcher"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ipc/worker"
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
		w, err := worker.New(o)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return w.Serve(ctx, child.Addr) }, nil
	}
	o := c.o.Dispatcher
	if o == nil {
		o = &dispatcher.Options{Logger: c.log}
	}
	d, err := dispatcher.New(o)
	if err != nil {
		return nil, err
	}
	l, err := local.New().Listen(child.Addr, d.ListenOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return d.Serve(ctx, l) }, nil
}
