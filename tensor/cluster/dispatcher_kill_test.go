package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

var dispatcherKills = flag.Int("dispatcher.kills", 3, "how many dispatchers TestDispatcherKilled kills")

// TestDispatcherKilled kills the dispatcher of four trainings at random moments. Three of
// them have a connection of their own with their worker and go on: each of their losses
// is the right one, to the bit. The fourth has two workers. It is told what has happened
// and what to do, and does it: with the next dispatcher it ends right as well. The
// workers are the same processes afterwards, and nothing is left. The end of a context
// stops the program of a session that went on.
func TestDispatcherKilled(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "256m")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	went, told := 0, 0
	for round := range *dispatcherKills {
		k := &dispatcherKill{T: t, dir: dir, after: int64(r.IntN(4 * killedSteps)), pause: time.Duration(r.IntN(2000)) * time.Microsecond}
		if ok := t.Run(fmt.Sprintf("%d-step%d", round, k.after), k.run); !ok {
			break
		}
		went, told = went+k.went, told+k.told
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		drop(t, ctx, dir)
		cancel()
	}
	t.Logf("%d dispatchers killed: %d sessions went on, %d were told why not and began again; 0 hangs, 0 blocks of shared memory left", *dispatcherKills, went, told)
}

// killedSteps is how many steps each client of TestDispatcherKilled takes.
const killedSteps = 40

// dispatcherKill is one round of TestDispatcherKilled.
type dispatcherKill struct {
	*testing.T
	dir   string
	after int64 // steps of all clients after which the dispatcher is killed
	pause time.Duration
	c     *cluster.Cluster
	want  [3][]float64 // losses, by number of workers

	steps      atomic.Int64
	reached    chan struct{}
	went, told int
}

func (k *dispatcherKill) run(t *testing.T) {
	k.T = t
	k.c = startIn(t, k.dir, cluster.Options{Workers: 2, Restart: true})
	before := k.c.Parts()
	k.reached = make(chan struct{})
	for workers := 1; workers <= 2; workers++ {
		e := k.open(workers)
		var err error
		if k.want[workers], err = newModel(tensor.NewSession(e, nil)).train(killedSteps); err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
	var all []*client.Engine
	for i := range 4 {
		all = append(all, k.open(1+i/3))
	}
	idle := k.open(1)
	var running sync.WaitGroup
	var mu sync.Mutex
	for i, e := range all {
		running.Go(func() {
			err := k.train(e, 1+i/3)
			for err != nil && i == 3 {
				if !saysWhatToDo(err) {
					break
				}
				mu.Lock()
				k.told++
				mu.Unlock()
				err = k.train(k.open(2), 2)
			}
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if i < 3 {
				k.went++
			}
		})
	}
	<-k.reached
	<-time.After(k.pause) // a random moment of a step
	kill(t, before[0].PID)

	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the clients do not end"))
	defer cancel()
	end := make(chan error, 1)
	go func() {
		running.Wait()
		end <- nil
	}()
	if err := wait(ctx, end); err != nil {
		t.Fatal(err)
	}
	until(t, "a new dispatcher", func() bool { return k.c.Restarts() > 0 })
	e := k.open(2) // both workers are there
	defer e.Close()
	after := k.c.Parts()
	if after[0].PID == before[0].PID || !slices.Equal(after[1:], before[1:]) {
		t.Errorf("processes %v, before the dispatcher was killed %v", after, before)
	}
	stopped(t, idle)
	if x, err := tensor.Ones(tensor.NewSession(e, nil), tensor.F32, 100).Sum().Item(); err != nil || x != 100 {
		t.Errorf("both workers: %v, %v; expected 100", x, err)
	}
}

// stopped has a session run a program that takes hours, and ends its context.
func stopped(t *testing.T, e *client.Engine) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
	s.Scope(func(sc *tensor.Scope) {
		sc.Keep(tensor.Ones(s, tensor.F32, 1, 1).Expand(1<<22, 1<<22).Sum())
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.Sync(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected %v", err, context.Canceled)
	}
}

// open opens a session of so many workers, as soon as there is a dispatcher that has
// them.
func (k *dispatcherKill) open(workers int) *client.Engine {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		e, err := client.Dial(ctx, k.c.Addr(), &client.Options{Name: fmt.Sprintf("of-%d", workers), Segment: segments(k.dir), Workers: workers})
		if err == nil {
			k.Cleanup(func() { e.Close() })
			return e
		}
		if !errors.Is(err, ipc.ErrNoListener) && !errors.Is(err, client.ErrLost) && !errors.Is(err, ipc.ErrPeerGone) || ctx.Err() != nil {
			k.Errorf("opening a session of %d: %v", workers, err)
			return nil
		}
		runtime.Gosched()
	}
}

// train takes the steps, and checks each loss.
func (k *dispatcherKill) train(e *client.Engine, workers int) error {
	if e == nil {
		return errors.New("no session")
	}
	m := newModel(tensor.NewSession(e, nil))
	for i, want := range k.want[workers] {
		loss := m.step(i)
		got, err := loss.Item()
		if err != nil {
			return err
		}
		loss.Free()
		if got != want {
			return fmt.Errorf("step %d: loss %v, expected %v", i, got, want)
		}
		if k.steps.Add(1) == k.after+1 {
			close(k.reached)
		}
	}
	return nil
}

// saysWhatToDo reports whether an error tells that the dispatcher died, and what to do.
func saysWhatToDo(err error) bool {
	return errors.Is(err, client.ErrLost) && errors.Is(err, ipc.ErrPeerGone) &&
		strings.Contains(err.Error(), "dispatcher at") && strings.Contains(err.Error(), "open another session")
}
