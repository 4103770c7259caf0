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

	"github.com/ringside-go/ringside/ipc/local"
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
	cores   int      // that a child process may use; 0: all

	mu       sync.Mutex
	parts    []Part
	said     map[Child]*tail // of child processes
	ready    bool            // all were connected once
	restarts int
}

// Part is a running dispatcher or worker.
type Part struct {
	Child
	PID int // of this process for a goroutine
}

// errClosed is the cause when the cluster ends because it is told to.
var errClosed = errors.New("cluster closed")

// Start starts a dispatcher and workers, and returns once all are connected, or
// ErrNotReady after Options.StartTimeout. The cluster lives until Close, until ctx is
// done, or, without Options.Restart, until the dispatcher or the last worker dies.
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
	c := &Cluster{o: o, log: o.Logger, said: map[Child]*tail{}}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	if !o.InProcess {
		err := c.fitThreads()
		if err == nil {
			err = c.checkSpace()
		}
		if err != nil {
			c.cancel(errClosed)
			return nil, err
		}
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

// startsAgain reports whether a part that died is started again, after so many early
// deaths in a row, and whether the cluster is ready. A dispatcher that dies before the
// cluster is ready, as it has no place to listen, is not, nor is a worker that dies then
// each time: Start would wait for it without a word. Later the reason may pass, as when
// memory is short.
func (c *Cluster) startsAgain(child Child, deaths int) (again, ready bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.o.Restart && (c.ready || child.Role == RoleWorker && deaths < deathsAtStart), c.ready
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
	if errors.Is(err, ErrDied) || errors.Is(err, ErrNotReady) {
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
	deaths := 0
	for p != nil {
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
		if time.Since(began) > healthy {
			deaths = 0
		}
		p, deaths = c.again(child, fmt.Errorf("%s (pid %d): %w", child, p.pid, p.err), deaths+1, start)
	}
}

// again starts a part again that died, and tries until it can be started. It returns the
// part, or nil if that is given up or the cluster ends, and how often in a row the part
// died early or could not be started.
func (c *Cluster) again(child Child, why error, deaths int, start func(Child) (*part, error)) (*part, int) {
	for {
		if again, ready := c.startsAgain(child, deaths); !again {
			c.giveUp(child, why, deaths, ready)
			return nil, deaths
		}
		pause := pauseAfter(deaths)
		if pause > maxPause {
			c.log.Error("process of the cluster does not live long: it is started again more slowly", "child", child.String(), "times", deaths, "pause", pause, "err", why)
		}
		select {
		case <-c.ctx.Done():
			return nil, deaths
		case <-time.After(pause):
		}
		p, err := start(child)
		if err == nil {
			c.set(child, p.pid)
			c.mu.Lock()
			c.restarts++
			c.mu.Unlock()
			c.log.Info("process of the cluster started again", "child", child.String(), "pid", p.pid)
			return p, deaths
		}
		c.log.Error("process of the cluster could not be started again", "child", child.String(), "err", err)
		why, deaths = err, deaths+1
	}
}

// giveUp ends the cluster because a part is not started again, unless other workers can
// do its work: until the cluster is ready, all are waited for.
func (c *Cluster) giveUp(child Child, why error, deaths int, ready bool) {
	if ready && child.Role == RoleWorker && c.anyWorker() {
		return
	}
	if deaths > 1 {
		why = fmt.Errorf("%d times in a row before all workers were ready: %w", deaths, why)
	}
	c.cancel(fmt.Errorf("%w: %w", ErrDied, why))
}

// pauseAfter is the time before a part is started again that died early so often in a
// row.
func pauseAfter(deaths int) time.Duration {
	if deaths <= manyDeaths {
		return min(firstPause<<(deaths-1), maxPause)
	}
	return min(maxPause<<min(deaths-manyDeaths, manyDeaths), longestPause)
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
