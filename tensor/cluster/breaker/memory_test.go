package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// greedy are programs that need more memory than the container has: for a tensor, and
// beside tensors of few bytes, for operands that a product reads in another form.
var greedy = map[string]func(s *tensor.Session) *tensor.Tensor{
	"a tensor of 600 MB": func(s *tensor.Session) *tensor.Tensor { return tensor.Rand(s, tensor.F32, 150e3, 1000) },
	"a product of rows of 2,097,152": func(s *tensor.Session) *tensor.Tensor {
		x := tensor.Ones(s, tensor.F16, 1, 1)
		return x.Expand(16, 1<<21).Matmul(x.Expand(1<<21, 16))
	},
}

// childGreedy runs programs that need more than the container has, one after the other,
// and then one that fits. It fails unless an error names the control group.
func childGreedy(ctx context.Context, args []string) error { // ADDR
	for n := 0; ctx.Err() == nil; n++ {
		e, err := client.Dial(ctx, args[0], nil)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
		for name, program := range greedy {
			_, err := program(s).Sum().Item()
			if ctx.Err() == nil && (!errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "by the cgroup /ringside-test-")) {
				return fmt.Errorf("%s: %v, expected that the control group has no room", name, err)
			}
			s.ClearErr()
		}
		if _, err = tensor.Rand(s, tensor.F32, 1e3, 1000).Sum().Item(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("a tensor of 4 MB: %w", err)
		}
		e.Close()
		if n == 0 {
			fmt.Println("refused")
		}
	}
	return nil
}

// TestContainer runs a cluster in a control group of 300 MB, where a client asks for more
// without end. No process is killed.
func TestContainer(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 3
	}
	group := limitstest.MemoryGroup(t, os.Getenv, 300e6)
	c := start(t, cluster.Options{Workers: 1})
	for _, p := range c.Parts() {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, p.PID), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := c.Parts()
	h := newHonest(t, dial(t, c, 1))
	attacker := attack(t, "greedy", c.Addr())
	for range rounds {
		h.round()
	}
	interrupt(t, attacker)
	if after := c.Parts(); c.Restarts() > 0 || !slices.Equal(before, after) {
		t.Errorf("processes %v, %d of them started again; before %v", after, c.Restarts(), before)
	}
	h.round()
	h.report("more memory than the container has", maxStallFull)
}

// childHoard opens sessions, of which the first few need large temporaries once. Then all
// of them do nothing, and stay.
func childHoard(ctx context.Context, args []string) error { // ADDR SESSIONS
	var sessions int
	if _, err := fmt.Sscan(args[1], &sessions); err != nil {
		return err
	}
	for i := range sessions {
		e, err := client.Dial(ctx, args[0], nil)
		if err != nil {
			return err
		}
		defer e.Close()
		rows := 1
		if i < hoards {
			rows = hoardRows
		}
		s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
		var last *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { // what is between is freed
			last = sc.Keep(tensor.Ones(s, tensor.F32, rows, 1000).Cumsum(0).Sum(1).Max())
		})
		if n, err := last.Item(); err != nil || n != float64(1000*rows) {
			return fmt.Errorf("got %v, %v; expected %d", n, err, 1000*rows)
		}
	}
	fmt.Println("idle")
	<-ctx.Done()
	return nil
}

const (
	// The sessions of childHoard with large temporaries, and how many rows of 4 KB one of
	// these has.
	hoards    = 2
	hoardRows = 20e3

	// idleBytes is what an idle session may cost the worker, and kept what the worker may
	// keep in all: its code that ran meanwhile, and its heap.
	idleBytes = 300 << 10
	kept      = 32 << 20
)

// TestMemoryComesBack has sessions use much memory and then do nothing. The worker gives
// the memory back while they are open.
func TestMemoryComesBack(t *testing.T) {
	sessions := 100
	if testing.Short() {
		sessions = 20
	}
	c := start(t, cluster.Options{Workers: 1, Args: func(c cluster.Child) []string {
		args := cluster.DefaultArgs(c)
		if c.Role == cluster.RoleWorker {
			args = append(args, "--keep", "500ms")
		}
		return args
	}})
	h := newHonest(t, dial(t, c, 1))
	h.round()
	pid := c.Parts()[1].PID
	before := limitstest.Resident(t, pid)
	attack(t, "hoard", c.Addr(), fmt.Sprint(sessions))
	bound := before + kept + sessions*idleBytes
	now := limitstest.Resident(t, pid)
	for end := time.Now().Add(timeout); ; now = limitstest.Resident(t, pid) {
		h.round()
		if now <= bound {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d idle sessions: the worker has %d MiB, %d before; expected at most %d", sessions, now>>20, before>>20, bound>>20)
		}
	}
	most := limitstest.Most(t, pid)
	if most < bound+hoardRows*4000 {
		t.Errorf("the worker had %d MiB at most: nothing was to come back", most>>20)
	}
	t.Logf("the worker had %d MiB, %d at most, and has %d with %d idle sessions", before>>20, most>>20, now>>20, sessions)
	h.report("memory that idle sessions do not use", maxStallFull)
}
