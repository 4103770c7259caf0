package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// patience is the time after which a process that should have noticed a death counts as
// hanging. The time it took is printed.
const patience = 30 * time.Second

// used is how many blocks of the file system are not free.
func used(t testing.TB, dir string) uint64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks - st.Bfree
}

// drop waits until nothing of dir is used: the kernel frees a dead process's memory in
// its own time.
func drop(t testing.TB, ctx context.Context, dir string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for used(t, dir) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d blocks of shared memory are left", used(t, dir))
		}
	}
}

// TestKill kills the worker, the dispatcher or a client during training, at random
// moments. The others notice within patience, with an error that says what died, or carry
// on; and nothing is left.
func TestKill(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "256m")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rounds := 50
	if testsize.Sampled() {
		rounds = 6
	}
	for round := range rounds {
		victim := []string{"worker", "dispatcher", "client"}[round%3]
		steps, pause := r.IntN(30), time.Duration(r.IntN(2000))*time.Microsecond
		ok := t.Run(fmt.Sprintf("%d-%s-step%d", round, victim, steps), func(t *testing.T) {
			killOnce(t, dir, victim, steps, pause)
		})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		drop(t, ctx, dir)
		cancel()
		if !ok {
			return
		}
	}
}

func killOnce(t *testing.T, dir, victim string, steps int, pause time.Duration) {
	c := startIn(t, dir, cluster.Options{Workers: 2, Restart: true})
	parts := c.Parts()
	e := dial(t, c, &client.Options{Name: "survivor", Segment: segments(dir)})
	ours, _ := e.Worker()
	other := run(t, "client", c.Addr(), dir)
	losses, stop := make(chan error, 1), make(chan struct{})
	alive := make(chan struct{}, 1)
	go func() { losses <- trainUntil(e, stop, alive) }()
	for range steps + 1 {
		if _, err := other.out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	<-alive
	<-time.After(pause) // a random moment of the step

	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("not noticed in time"))
	defer cancel()
	switch victim {
	case "client":
		kill(t, other.Process.Pid)
		status(t, ctx, c, "sessions", 1)
		keepsOn(t, ctx, losses, alive)
	case "dispatcher":
		kill(t, parts[0].PID)
		keepsOn(t, ctx, losses, alive)
		until(t, "one restart", func() bool { return c.Restarts() == 1 })
		for range 5 {
			if _, err := other.out.ReadString('\n'); err != nil {
				t.Fatalf("the other client: %v", err)
			}
		}
		keepsOn(t, ctx, losses, alive)
	case "worker":
		i := 1
		if ours == "w1" {
			i = 2
		}
		kill(t, parts[i].PID)
		if err := wait(ctx, losses); !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), fmt.Sprintf("%q (pid %d)", ours, parts[i].PID)) {
			t.Errorf("the client of %s says: %v", ours, err)
		}
		// The other's worker was not touched, and a new one is there.
		for range 5 {
			if _, err := other.out.ReadString('\n'); err != nil {
				t.Fatalf("the other client: %v", err)
			}
		}
		status(t, ctx, c, "workers", 2)
		// It may be connected before the cluster has counted it.
		until(t, "one restart", func() bool { return c.Restarts() == 1 })
		if _, err := newModel(tensor.NewSession(dial(t, c, nil), nil)).train(3); err != nil {
			t.Errorf("a new session: %v", err)
		}
		return
	}
	close(stop)
	if err := wait(ctx, losses); err != nil {
		t.Errorf("the client that lives: %v", err)
	}
}

// trainUntil trains until stop, and reports each step on alive, if that has room.
func trainUntil(e *client.Engine, stop, alive chan struct{}) error {
	m := newModel(tensor.NewSession(e, nil))
	for i := 0; ; i++ {
		loss := m.step(i)
		if _, err := loss.Item(); err != nil {
			return err
		}
		loss.Free()
		select {
		case <-stop:
			return nil
		case alive <- struct{}{}:
		default:
		}
	}
}

func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}

func wait(ctx context.Context, end chan error) error {
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keepsOn waits for two more steps.
func keepsOn(t testing.TB, ctx context.Context, end chan error, alive chan struct{}) {
	t.Helper()
	for range 3 { // the first may be old
		select {
		case err := <-end:
			t.Fatalf("the client that lives: %v", err)
		case <-alive:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}

// status waits until one of the dispatcher's counters has a value.
func status(t testing.TB, ctx context.Context, c *cluster.Cluster, counter string, want uint64) {
	t.Helper()
	m, err := client.NewMonitor(ctx, nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s, err := m.Status(ctx)
		if err != nil {
			t.Fatalf("waiting for %d %s: %v", want, counter, err)
		}
		if s.Get(counter) == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d %s, expected %d: %v", s.Get(counter), counter, want, context.Cause(ctx))
		}
	}
}
