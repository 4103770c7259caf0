package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/limits/limitstest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// mine runs a client that computes what only it can know: x = n, then again and again x =
// x*a + b with numbers of its own, beside arithmetic in Go.
func mine(e *client.Engine, n, rounds int) error {
	s := tensor.NewSession(e, &tensor.SessionOptions{Seed: uint64(n)})
	r := rand.New(rand.NewPCG(uint64(n), 1))
	x, want := tensor.From(s, []float64{float64(n), -float64(n)}), float64(n)
	for i := range rounds {
		a, b := float64(r.IntN(7)-3), float64(r.IntN(1000))
		y := tensor.From(s, []float64{a, a})
		if err := x.Assign(x.Mul(y).AddS(b)); err != nil {
			return err
		}
		y.Free()
		if want = want*a + b; want > 1e12 || want < -1e12 {
			if err := x.Assign(x.MulS(0).AddS(1)); err != nil {
				return err
			}
			want = 1
		}
		if r.IntN(4) > 0 {
			continue
		}
		got, err := tensor.Data[float64](x)
		if err != nil {
			return fmt.Errorf("client %d, round %d: %w", n, i, err)
		}
		if got[0] != want {
			return fmt.Errorf("client %d, round %d: %v, expected %v", n, i, got[0], want)
		}
	}
	return nil
}

// TestManyClients: sessions with the same names and the same ids do not see each other,
// on few workers and many, also when some end in the middle.
func TestManyClients(t *testing.T) {
	for _, c := range []struct {
		clients, workers int
		inProcess        bool
	}{{2, 2, false}, {5, 2, true}, {20, 3, true}, {20, 1, false}} {
		t.Run(fmt.Sprintf("%d-on-%d", c.clients, c.workers), func(t *testing.T) {
			cl := start(t, cluster.Options{Workers: c.workers, InProcess: c.inProcess})
			workers := map[string]int{}
			var wg sync.WaitGroup
			errs := make(chan error, c.clients)
			engines := make([]*client.Engine, c.clients)
			for n := range engines {
				engines[n] = dial(t, cl, &client.Options{Name: "same"})
				name, _ := engines[n].Worker()
				workers[name]++
			}
			for n, e := range engines {
				wg.Go(func() {
					if n%5 == 4 { // it leaves without a word, with everything it has
						_ = mine(e, n, 20)
						e.Close()
						return
					}
					errs <- mine(e, n, 200)
				})
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				if err != nil {
					t.Error(err)
				}
			}
			if len(workers) != min(c.workers, c.clients) {
				t.Errorf("%d sessions lie on %v", c.clients, workers)
			}
			for name, n := range workers {
				if n > (c.clients+c.workers-1)/c.workers {
					t.Errorf("%s has %d sessions of %d", name, n, c.clients)
				}
			}
		})
	}
}

// TestWorkerForgets: what a session held is free when it is over.
func TestWorkerForgets(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "128m")
	c := startIn(t, dir, cluster.Options{})
	hold := func() {
		e := dial(t, c, &client.Options{Segment: segments(dir)})
		s := tensor.NewSession(e, nil)
		x := tensor.Full(s, tensor.F32, 1, 4<<20) // 16 MiB
		y := x.AddS(1)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := tensor.View(y, func(v []float32) error {
			if v[1<<20] != 2 {
				t.Errorf("it is %v", v[1<<20])
			}
			return e.Close() // with a value in our hands
		}); !errors.Is(err, tensor.ErrClosed) {
			t.Fatalf("%v, expected that the value may be gone", err)
		}
	}
	hold()
	status(t, testContext(t), c, "sessions", 0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range 10 { // 32 MiB each: without freeing it would not fit
		hold()
		status(t, ctx, c, "sessions", 0)
		if n := used(t, dir) * 4096; n > 96<<20 {
			t.Fatalf("%d MiB are used after %d sessions", n>>20, i+2)
		}
	}
}

// TestNoSpace: a full file system, a limit of the client, of the session and of the
// worker, are errors that name numbers; the session goes on.
func TestNoSpace(t *testing.T) {
	dir := limitstest.Tmpfs(t, os.Getenv, "24m")
	quota := startIn(t, dir, cluster.Options{InProcess: true})
	for what, o := range map[string]client.Options{
		"file system of the worker": {},
		"quota of the session":      {Quota: 4 << 20},
	} {
		s := tensor.NewSession(dial(t, quota, &o), nil)
		big := tensor.Full(s, tensor.F32, 1, 8<<20) // 32 MiB
		if err := s.Sync(); !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "33554432") {
			t.Errorf("%s: %v", what, err)
		}
		s.ClearErr()
		big.Free()
		if v, err := tensor.Full(s, tensor.F32, 3, 10).Sum().Item(); err != nil || v != 30 {
			t.Errorf("%s: afterwards: %v, %v", what, v, err)
		}
	}
	for what, o := range map[string]client.Options{
		"limit of the client": {MaxBytes: 4 << 20},
		"file system":         {Segment: shm.Options{Dir: dir, Backing: shm.Tmpfs}},
	} {
		s := tensor.NewSession(dial(t, quota, &o), nil)
		big := tensor.From(s, make([]float32, 8<<20))
		if err := big.Err(); !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "33554432") {
			t.Errorf("%s: %v", what, err)
		}
		s.ClearErr()
		if v, err := tensor.From(s, []float32{1, 2}).Sum().Item(); err != nil || v != 3 {
			t.Errorf("%s: afterwards: %v, %v", what, v, err)
		}
	}
	// Uploads that the worker is done with make room for others, without a word from the
	// user.
	s := tensor.NewSession(dial(t, quota, &client.Options{MaxBytes: 4 << 20}), nil)
	for i := range 20 {
		x := tensor.From(s, make([]float32, 600<<10)) // 2.4 MiB
		x.Free()
		if err := s.Flush(); err != nil {
			t.Fatalf("upload %d: %v", i, err)
		}
	}
	if err := s.Sync(); err != nil {
		t.Error(err)
	}
}

// TestQuotaCounts: a session may use what it frees again, for ever.
func TestQuotaCounts(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	s := tensor.NewSession(dial(t, c, &client.Options{Quota: 1 << 20}), nil)
	x := tensor.Full(s, tensor.F32, 0, 50<<10) // 200 KiB
	for i := range 100 {
		s.Scope(func(*tensor.Scope) {
			y := tensor.From(s, make([]float32, 50<<10))
			if err := x.Assign(x.Add(y).AddS(1)); err != nil {
				t.Fatal(err)
			}
		})
		if err := s.Flush(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if v, err := x.Mean().Item(); err != nil || v != 100 {
		t.Errorf("%v, %v", v, err)
	}
}

// TestLateError: an error of a batch that was not waited for comes with the next wait,
// once, with what failed and the line that recorded it. The value that failed keeps it.
func TestLateError(t *testing.T) {
	s := session(t, start(t, cluster.Options{InProcess: true}))
	x := tensor.From(s, []float32{1, 2, 3})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	bad := x.IndexSelect(0, tensor.From(s, []int64{7}))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	good := x.AddS(1)
	_, err := tensor.Data[float32](good)
	var op *tensor.OpError
	if !errors.Is(err, tensor.ErrIndex) || !errors.As(err, &op) || !strings.Contains(op.Site, "clients_test.go") || op.Op != "index_select" || !strings.Contains(err.Error(), "7") {
		t.Errorf("%v", err)
	}
	s.ClearErr()
	if v, err := tensor.Data[float32](x); err != nil || v[2] != 3 {
		t.Errorf("the session goes on: %v, %v", v, err)
	}
	if _, err := tensor.Data[float32](bad); !errors.Is(err, tensor.ErrIndex) {
		t.Errorf("what failed: %v", err)
	}
	s.ClearErr()
	// At once, the error has the line.
	_, err = tensor.Data[float32](x.IndexSelect(0, tensor.From(s, []int64{-9})))
	if !errors.Is(err, tensor.ErrIndex) || !errors.As(err, &op) || !strings.Contains(op.Site, "clients_test.go") {
		t.Errorf("%v", err)
	}
}

// TestCancel: a wait that is given up leaves a session that works.
func TestCancel(t *testing.T) {
	e := dial(t, start(t, cluster.Options{InProcess: true}), nil)
	s := tensor.NewSession(e, nil)
	slow := tensor.Full(s, tensor.F64, 1, 300, 300)
	for range 8 {
		slow = slow.Matmul(slow).MulS(1.0 / 300)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
	defer cancel()
	if _, err := e.Submit(ctx, &tensor.Batch{Sync: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if v, err := slow.Mean().Item(); err != nil || v < 0.999 || v > 1.001 {
		t.Errorf("%v, %v", v, err)
	}
}

// TestCloseWhileWaiting: Close ends a wait of another goroutine, and all later calls.
func TestCloseWhileWaiting(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true})
	for range 20 {
		e := dial(t, c, nil)
		s := tensor.NewSession(e, nil)
		end := make(chan error)
		begun := make(chan struct{})
		go func() {
			m := newModel(s)
			_, err := m.train(3)
			close(begun)
			for err == nil {
				_, err = m.train(1)
			}
			end <- err
		}()
		<-begun
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := <-end; !errors.Is(err, tensor.ErrClosed) {
			t.Errorf("%v", err)
		}
		if _, err := e.Alloc(10); !errors.Is(err, tensor.ErrClosed) {
			t.Errorf("Alloc: %v", err)
		}
		if _, err := e.Submit(context.Background(), &tensor.Batch{Sync: true}); !errors.Is(err, tensor.ErrClosed) {
			t.Errorf("Submit: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	}
}

// TestBigBatches: more uploads, frees and values than fit into one message.
func TestBigBatches(t *testing.T) {
	e := dial(t, start(t, cluster.Options{InProcess: true}), nil)
	s := tensor.NewSession(e, nil)
	const n = 20000
	all := make([]*tensor.Tensor, n)
	for i := range all {
		all[i] = tensor.Scalar(s, float32(i))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 1023, 1024, n - 1} {
		if v, err := all[i].Item(); err != nil || v != float64(i) {
			t.Errorf("value %d is %v, %v", i, v, err)
		}
	}
	ids := make([]uint64, 3000)
	for i := range ids {
		ids[i] = uint64(1 + i)
	}
	got, err := e.Submit(context.Background(), &tensor.Batch{Base: 1 << 30, Fetch: ids})
	if err != nil || len(got) != len(ids) {
		t.Fatalf("%d values, %v", len(got), err)
	}
	for _, f := range got {
		f.Release()
	}
	for _, x := range all {
		x.Free()
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if v, err := tensor.Scalar(s, float32(5)).Item(); err != nil || v != 5 {
		t.Errorf("afterwards: %v, %v", v, err)
	}
	// Many different programs: more than are remembered.
	for i := range 600 {
		x := tensor.Full(s, tensor.F32, 1, 1+i).Sum()
		if v, err := x.Item(); err != nil || v != float64(1+i) {
			t.Fatalf("program %d gives %v, %v", i, v, err)
		}
		x.Free()
	}
	if v, err := tensor.Full(s, tensor.F32, 1, 1).Sum().Item(); err != nil || v != 1 {
		t.Errorf("a forgotten program gives %v, %v", v, err)
	}
	if b := e.Stats().Bodies; b < 601 {
		t.Errorf("%d bodies were sent: nothing was forgotten", b)
	}
}

// TestViewHeld: a value that is being read stays as it is, whatever becomes of its
// tensor.
func TestViewHeld(t *testing.T) {
	e := dial(t, start(t, cluster.Options{InProcess: true}), nil)
	s := tensor.NewSession(e, nil)
	x := tensor.Full(s, tensor.F32, 7, 1000)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	var held tensor.Fetched
	// The session's own way to read would not let us go on meanwhile.
	got, err := e.Submit(context.Background(), &tensor.Batch{Base: 1 << 30, Fetch: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	held = got[0]
	before := string(held.Bytes)
	for range 10 {
		if err := x.Assign(x.AddS(1)); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	x.Free()
	y := tensor.Full(s, tensor.F32, 9, 1000)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if string(held.Bytes) != before {
		t.Error("it changed")
	}
	held.Release()
	held.Release() // a mistake that does no harm
	if v, err := y.Mean().Item(); err != nil || v != 9 {
		t.Errorf("%v, %v", v, err)
	}
}
