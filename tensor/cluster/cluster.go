package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// Cluster is a dispatcher and its workers. All methods may be called concurrently.
type Cluster struct {
	o   Options
	log *slog.Logger

	ctx     context.Context // done when the cluster ends
	cancel  context.CancelCauseFunc
	runs    sync.WaitGroup // goroutines that supervise the parts
	workers sync.WaitGroup // those of the workers
	once    sync.Once
	starts  *starter // of child processes; nil for goroutines

	mu       sync.Mutex
	parts    []Part
	ready    bool // all were connected once
	restarts int
}

// Part is a running dispatcher or worker.
type Part struct {
	Child
	PID int // of this process for a goroutine
}

// errClosed is the cause when the cluster ends because it is told to.
var errClosed = errors.New("cluster closed")

// Start starts a dispatcher and workers, and returns once all are connected. The cluster
// lives until Close, until ctx is done, or, without Options.Restart, until the dispatcher
// or the last worker dies.
func Start(ctx context.Context, options *Options) (*Cluster, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(o.Addr)
	if err := local.PrepareDir(dir); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	Sweep(dir, o.Logger)
	c := &Cluster{o: o, log: o.Logger}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if !o.InProcess {
		c.starts = newStarter()
	}
	if err := c.start(); err != nil {
		c.cancel(errClosed)
		_ = c.Close()
		return nil, err
	}
	context.AfterFunc(c.ctx, func() { _ = c.Close() })
	return c, nil
}

// Sweep removes from dir the sockets of clusters whose processes were all killed: those
// of dispatchers, and of workers that were connecting. Sockets of live processes stay.
// Start calls it for the directory of its socket.
func Sweep(dir string, log *slog.Logger) {
	_, _ = local.Sweep(dir, log, sockets, local.AnyPrefix)
}

// start starts everything and waits for it to be connected.
func (c *Cluster) start() error {
	if err := c.run(Child{Role: RoleDispatcher, Addr: c.o.Addr, ListenTCP: c.o.ListenTCP, SecretFile: c.o.SecretFile, Flight: c.o.Flight, TLS: c.o.TLS}); err != nil {
		return err
	}
	var m *client.Monitor
	defer func() {
		if m != nil {
			m.Close()
		}
	}()
	if err := c.poll(func() (done bool, err error) {
		if m == nil {
			if m, err = client.NewMonitor(c.ctx, nil, c.o.Addr); errors.Is(err, ipc.ErrNoListener) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
		// Another dispatcher may have the address: then this one is about to fail.
		s, err := m.Status(c.ctx)
		return err == nil && s.Get(metrics.PID) == uint64(c.Parts()[0].PID), err
	}); err != nil {
		return err
	}
	for i := range c.o.Workers {
		on := ""
		if len(c.o.Devices) > 0 {
			on = c.o.Devices[i%len(c.o.Devices)]
		}
		if err := c.run(Child{Role: RoleWorker, Name: fmt.Sprintf("w%d", i), Addr: c.o.Addr, TLS: c.o.TLS, Threads: c.o.Threads, Device: on,
			SessionMiB: c.o.SessionMiB, MemoryMiB: c.o.MemoryMiB, Shm: c.o.Shm, MaxWork: c.o.MaxWork, Batch: c.o.Batch, Flight: c.o.Flight}); err != nil {
			return err
		}
	}
	if err := c.poll(func() (bool, error) {
		s, err := m.Status(c.ctx)
		return err == nil && s.Get(metrics.Workers) == uint64(c.o.Workers), err
	}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	return nil
}

// startsAgain reports whether a part that died is started again. A dispatcher that dies
// before the cluster is ready, as it has no place to listen, ends the cluster.
func (c *Cluster) startsAgain(child Child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.o.Restart && (c.ready || child.Role == RoleWorker)
}

// poll asks every few milliseconds, until it is done or the cluster is over.
func (c *Cluster) poll(ask func() (done bool, err error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := ask()
		if c.ctx.Err() != nil {
			return c.reason()
		}
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return c.reason()
		}
	}
}

// reason is why the cluster is over.
func (c *Cluster) reason() error {
	err := context.Cause(c.ctx)
	if errors.Is(err, ErrDied) {
		return err
	}
	return fmt.Errorf("cluster: %w", err)
}

// run starts one part and looks after it.
func (c *Cluster) run(child Child) error {
	start := c.goroutine
	if c.starts != nil {
		start = c.process
	}
	p, err := start(child)
	if err != nil {
		return err
	}
	c.set(child, p.pid)
	if child.Role == RoleWorker {
		c.workers.Add(1)
	}
	c.runs.Go(func() {
		c.supervise(child, p, start)
		if child.Role == RoleWorker {
			c.workers.Done()
		}
	})
	return nil
}

// part is a started part: done is closed once it has ended, and then err says how.
type part struct {
	pid  int
	done chan struct{}
	err  error // what it ended with; nil for a proper end
	stop func(grace time.Duration)
}

// supervise waits for the end of a part: by itself, or because the cluster ends.
func (c *Cluster) supervise(child Child, p *part, start func(Child) (*part, error)) {
	pause := firstPause
	for {
		began := time.Now()
		select {
		case <-c.ctx.Done():
			if child.Role == RoleDispatcher {
				c.workers.Wait() // their last messages go through it
			}
			p.stop(c.o.Grace)
			<-p.done
			c.set(child, 0)
			return
		case <-p.done:
		}
		c.set(child, 0)
		if c.ctx.Err() != nil {
			return
		}
		c.log.Warn("process of the cluster died", "child", child.String(), "pid", p.pid, "err", p.err)
		if !c.startsAgain(child) {
			err := fmt.Errorf("%w: %s (pid %d): %w", ErrDied, child, p.pid, p.err)
			if child.Role == RoleDispatcher || !c.anyWorker() {
				c.cancel(err)
			}
			return
		}
		if time.Since(began) > healthy {
			pause = firstPause
		}
		for {
			select {
			case <-c.ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxPause)
			next, err := start(child)
			if err == nil {
				p = next
				break
			}
			c.log.Error("process of the cluster could not be started again", "child", child.String(), "err", err)
		}
		c.set(child, p.pid)
		c.mu.Lock()
		c.restarts++
		c.mu.Unlock()
		c.log.Info("process of the cluster started again", "child", child.String(), "pid", p.pid)
	}
}

// set notes a part's process; 0 when it has none.
func (c *Cluster) set(child Child, pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.parts {
		if c.parts[i].Child == child {
			c.parts[i].PID = pid
			return
		}
	}
	c.parts = append(c.parts, Part{child, pid})
}

func (c *Cluster) anyWorker() bool {
	return slices.ContainsFunc(c.Parts(), func(p Part) bool { return p.Role == RoleWorker && p.PID != 0 })
}

// Addr is the dispatcher's address.
func (c *Cluster) Addr() string { return c.o.Addr }

// Parts returns the dispatcher and then the workers in order; the PID of a dead one is 0.
func (c *Cluster) Parts() []Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Part(nil), c.parts...)
}

// Restarts is how often a worker or the dispatcher was started again.
func (c *Cluster) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// Done is closed when the cluster ends: by Close, by its context, or because the
// dispatcher or the last worker died and is not started again.
func (c *Cluster) Done() <-chan struct{} { return c.ctx.Done() }

// Wait waits for the cluster's end and returns its reason: nil after Close, ErrDied, or
// the context's.
func (c *Cluster) Wait() error {
	<-c.ctx.Done()
	_ = c.Close()
	if errors.Is(context.Cause(c.ctx), errClosed) {
		return nil
	}
	return c.reason()
}

// Close ends all parts and waits until they have, workers first: they are asked to, and
// after Options.Grace they are killed. Nothing of the cluster is left in the runtime
// directory. Further calls wait for the first.
func (c *Cluster) Close() error {
	c.cancel(errClosed)
	c.once.Do(func() {
		c.runs.Wait()
		if c.starts != nil {
			c.starts.close()
		}
		c.sweep()
	})
	return nil
}

// sweep removes the socket of a dispatcher that was killed, unless another process
// listens there by now: listening takes over the socket of a dead process, and closing
// removes it.
func (c *Cluster) sweep() {
	if l, err := local.New().Listen(c.o.Addr, nil); err == nil {
		_ = l.Close()
	}
}
