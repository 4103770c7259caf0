package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

const (
	// freeWithin is the time in which a worker is free after a stop. One of a few tries
	// must keep to it, because other work of the machine may delay any of them.
	freeWithin = 100 * time.Millisecond
	tries      = 10

	// freeAtLast is what every try must keep to: far less than a program of hours.
	freeAtLast = 10 * time.Second
)

// endless sends a program that takes hours to every worker of a session.
func endless(ctx context.Context, e tensor.Engine) *tensor.Session {
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
	s.Scope(func(sc *tensor.Scope) {
		sc.Keep(tensor.Ones(s, tensor.F32, 1, 1).Expand(1<<22, 1<<22).Sum())
	})
	return s
}

// childEndless runs a program that takes hours, until it is interrupted.
func childEndless(ctx context.Context, args []string) error { // ADDR WORKERS
	var workers int
	if _, err := fmt.Sscan(args[1], &workers); err != nil {
		return err
	}
	e, err := client.Dial(ctx, args[0], &client.Options{Config: &config.Config{NumWorkers: workers}})
	if err != nil {
		return err
	}
	defer e.Close()
	s := endless(ctx, e)
	if err := s.Flush(); err != nil {
		return err
	}
	fmt.Println("running")
	return s.Sync()
}

// wait asks the dispatcher until all of its workers are busy, or none is.
func wait(t *testing.T, c *cluster.Cluster, busy uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := client.NewMonitor(ctx, nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for {
		status, err := m.Status(ctx)
		if err != nil {
			t.Fatalf("waiting for %d busy workers: %v", busy, err)
		}
		n := uint64(0)
		for i := range c.Parts()[1:] {
			n += status.Get(metrics.OfWorker(fmt.Sprintf("w%d", i), metrics.Occupied))
		}
		if n == busy {
			return
		}
	}
}

// stops are the ways in which a program can end before its time. Each runs one in a
// session of so many workers, ends it once running returns, and returns when it did.
var stops = map[string]func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time{
	"close": func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time {
		e := dial(t, c, workers)
		end := sync(t, endless(t.Context(), e))
		running()
		at := time.Now()
		e.Close()
		end(tensor.ErrClosed)
		return at
	},
	"cancel": func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time {
		ctx, cancel := context.WithCancel(t.Context())
		end := sync(t, endless(ctx, dial(t, c, workers)))
		running()
		at := time.Now()
		cancel()
		end(context.Canceled)
		return at
	},
	"cancel while nothing waits": func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time {
		ctx, cancel := context.WithCancel(t.Context())
		if err := endless(ctx, dial(t, c, workers)).Flush(); err != nil {
			t.Fatal(err)
		}
		running()
		at := time.Now()
		cancel()
		return at
	},
	"deadline": func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		end := sync(t, endless(ctx, dial(t, c, workers)))
		end(context.DeadlineExceeded)
		at, _ := ctx.Deadline()
		return at
	},
	"interrupt": func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time {
		return signalled(t, c, workers, running, os.Interrupt)
	},
	"kill": func(t *testing.T, c *cluster.Cluster, workers int, running func()) time.Time {
		return signalled(t, c, workers, running, syscall.SIGKILL)
	},
}

// sync syncs s, and returns a function that waits for its error.
func sync(t *testing.T, s *tensor.Session) func(want error) {
	got := make(chan error, 1)
	go func() { got <- s.Sync() }()
	return func(want error) {
		t.Helper()
		if err := <-got; !errors.Is(err, want) {
			t.Errorf("the stopped program: %v, expected %v", err, want)
		}
	}
}

// signalled sends a signal to a client whose program runs.
func signalled(t *testing.T, c *cluster.Cluster, workers int, running func(), sig os.Signal) time.Time {
	t.Helper()
	p := attack(t, "endless", c.Addr(), fmt.Sprint(workers))
	running()
	at := time.Now()
	if err := p.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestStops ends programs that would run for hours in every way that there is. An honest
// session of the same workers goes on within freeWithin, with the same bits as before.
func TestStops(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		c := start(t, cluster.Options{Workers: workers})
		h := newHonest(t, dial(t, c, workers))
		for name, stop := range stops {
			t.Run(fmt.Sprintf("%s/%d", name, workers), func(t *testing.T) {
				best := time.Hour
				for range tries {
					at := stop(t, c, workers, func() { wait(t, c, uint64(workers)) })
					if x, err := tensor.Ones(h.s, tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
						t.Fatalf("the honest client got %v, %v; expected 100", x, err)
					}
					took := time.Since(at)
					if best = min(best, took); took > freeAtLast {
						t.Fatalf("the honest client waited for %v, expected at most %v", took, freeAtLast)
					}
					wait(t, c, 0)
					h.round()
					if best <= freeWithin {
						break
					}
				}
				t.Logf("the worker was free after %v", best)
				if best > freeWithin {
					t.Errorf("no try of %d was free after %v, the best after %v", tries, freeWithin, best)
				}
			})
		}
		h.report(fmt.Sprintf("endless programs, sessions of %d", workers), maxStall)
	}
}
