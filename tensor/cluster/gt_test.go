package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// childHoarder holds as many MiB at the worker, as a tensor it uploaded and one it
// computed, until it is killed.
func childHoarder(ctx context.Context, args []string) error { // ADDR DIR MIB
	e, err := client.Dial(ctx, args[0], &client.Options{Name: "hoarder", Segment: segments(args[1])})
	if err != nil {
		return err
	}
	defer e.Close()
	mib, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: ctx})
	x := tensor.From(s, make([]float32, mib<<18))
	y := x.AddS(1)
	if err := s.Sync(); err != nil {
		return err
	}
	fmt.Println("holding", y.Elems())
	<-ctx.Done()
	return nil
}

// TestKilledClientIsForgotten: a worker that lives on gives back what killed clients
// held.
func TestKilledClientIsForgotten(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "192m")
	c := startIn(t, dir, cluster.Options{})
	ctx := testContext(t)
	for i := range 8 { // 64 MiB each: without freeing, the third would not fit
		p := run(t, "hoarder", c.Addr(), dir, "32")
		if line, err := p.out.ReadString('\n'); err != nil || line != fmt.Sprintf("holding %d\n", 32<<18) {
			t.Fatalf("client %d: %q, %v", i, line, err)
		}
		kill(t, p.Process.Pid)
		status(t, ctx, c, "sessions", 0)
	}
}

// resident is how many bytes of its own memory a process has in use: not those that it
// shares.
func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kb), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no RssAnon of process %d", pid)
	return 0
}

// TestNothingGrows: neither the dispatcher nor the worker, its shared memory, or the
// session grow with the number of steps, each of which updates a weight in place. 2.5 KB
// a message or one old weight a step would be seen.
func TestNothingGrows(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "128m")
	c := startIn(t, dir, cluster.Options{})
	s := tensor.NewSession(dial(t, c, &client.Options{Segment: segments(dir)}), nil)
	w := tensor.Zeros(s, tensor.F32, 64<<10) // 256 KiB
	steps := func(n int) {
		for i := range n {
			s.Scope(func(*tensor.Scope) {
				if err := w.AddAssign(tensor.From(s, []float32{1})); err != nil {
					t.Fatal(err)
				}
			})
			err := s.Flush()
			if i%64 == 63 {
				// as a loop does that looks at its loss now and then
				err = errors.Join(err, s.Sync())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	steps(2000)
	// more than a collector keeps back, less than 1 KB a step
	const more, slack = 20000, 16 << 20
	shared, live := used(t, dir), s.Stats().Live
	var before []int
	for _, p := range c.Parts() {
		before = append(before, resident(t, p.PID))
	}
	steps(more)
	for i, p := range c.Parts() {
		if n := resident(t, p.PID) - before[i]; n > slack {
			t.Errorf("%v grew by %d bytes in %d steps", p.Child, n, more)
		}
	}
	if n := used(t, dir); n != shared {
		t.Errorf("%d blocks of shared memory are used after %d steps, %d before", n, more, shared)
	}
	if n := s.Stats().Live; n != live {
		t.Errorf("%d values are alive after %d steps, %d before", n, more, live)
	}
	if v, err := w.Mean().Item(); err != nil || v != 2000+more {
		t.Errorf("the weight is %v, %v; want %d", v, err, 2000+more)
	}
}

// TestFailingClients: clients whose programs fail again and again, each in its own way,
// beside others of the same names on the same worker, which never notice. A client that
// fails gets its own errors, and its session goes on.
func TestFailingClients(t *testing.T) {
	most := 100 // failures of a client
	if testing.Short() {
		most = 20
	}
	c := start(t, cluster.Options{InProcess: true})
	fails := []struct {
		want error
		do   func(s *tensor.Session, x *tensor.Tensor) error
	}{
		{tensor.ErrIndex, func(s *tensor.Session, x *tensor.Tensor) error {
			_, err := tensor.Data[float32](x.IndexSelect(0, tensor.From(s, []int64{1 << 40})))
			return err
		}},
		{tensor.ErrNoSpace, func(s *tensor.Session, _ *tensor.Tensor) error {
			_, err := tensor.Data[float64](tensor.Full(s, tensor.F64, 1, 1<<16).Cumsum(0))
			return err
		}},
		{tensor.ErrShape, func(_ *tensor.Session, x *tensor.Tensor) error {
			_, err := x.Reshape(7).Item()
			return err
		}},
	}
	var wg sync.WaitGroup
	for n := range 3 {
		e := dial(t, c, &client.Options{Name: "same"})
		wg.Go(func() {
			if err := mine(e, n, 3*most); err != nil {
				t.Error(err)
			}
		})
	}
	for _, f := range fails {
		s := tensor.NewSession(dial(t, c, &client.Options{Name: "same", Quota: 64 << 10}), nil)
		wg.Go(func() {
			x := tensor.From(s, []float32{1, 2, 3})
			// what fails takes the uploads of its batch along
			if err := s.Sync(); err != nil {
				t.Error(err)
			}
			for i := range most {
				if err := f.do(s, x); !errors.Is(err, f.want) {
					t.Errorf("failure %d: %v, want %v", i, err, f.want)
					return
				}
				s.ClearErr()
				if v, err := x.Sum().Item(); err != nil || v != 6 {
					t.Errorf("after failure %d: %v, %v", i, v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
