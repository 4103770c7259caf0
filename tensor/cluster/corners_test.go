package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// TestTogetherOfNothing: tensors whose cut dim is 0, and those with fewer rows than there
// are workers, are like others.
func TestTogetherOfNothing(t *testing.T) {
	for n := 2; n <= 4; n++ {
		c := start(t, cluster.Options{InProcess: true, Workers: n})
		s := tensor.NewSession(dial(t, c, &client.Options{Config: rows(n)}), nil)
		for h := range n {
			data := make([]float32, 4*h)
			want := 0.0
			for i := range data {
				data[i] = float32(i + 1)
				want += float64(i + 1)
			}
			var x, made *tensor.Tensor
			s.Signal("rows", func() {
				x = tensor.From(s, data, h, 4)
				made = tensor.Full(s, tensor.F32, 2, h, 4)
			})
			w := tensor.From(s, numbers(12, 1), 4, 3)
			what := fmt.Sprintf("%d rows on %d workers", h, n)
			if got, err := x.Sum().Item(); err != nil || got != want {
				t.Errorf("%s: sum %v, %v; expected %v", what, got, err, want)
			}
			if got, err := made.Mul(x).Sum().Item(); err != nil || got != 2*want {
				t.Errorf("%s: sum of products %v, %v; expected %v", what, got, err, 2*want)
			}
			if got, err := tensor.Data[float32](x.Matmul(w)); err != nil || len(got) != 3*h {
				t.Errorf("%s: a product of %d elements, %v; expected %d", what, len(got), err, 3*h)
			}
			if got, err := tensor.Data[float32](x.Permute(1, 0).Matmul(made)); err != nil || len(got) != 16 || h == 0 && got[15] != 0 {
				t.Errorf("%s: a product by the inner dim: %v, %v", what, got, err)
			}
			if got, err := tensor.Data[float32](x); err != nil || len(got) != 4*h {
				t.Errorf("%s: %d elements read, %v", what, len(got), err)
			}
		}
	}
}

// TestQuotaOfOneWorker: a result that has no room on one of two workers alone is an error
// that says how much there may be; what was there, and other sessions of the same
// workers, go on.
func TestQuotaOfOneWorker(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Workers: 2})
	s := tensor.NewSession(dial(t, c, &client.Options{Config: rows(2), Quota: 640 << 10}), nil)
	other := tensor.NewSession(dial(t, c, &client.Options{Config: rows(2)}), nil)
	const wide = 50 << 10 // elements of a row, 200 KiB
	full := func(s *tensor.Session, h int) (x *tensor.Tensor) {
		s.Signal("rows", func() { x = tensor.Full(s, tensor.F32, 1, h, wide) })
		return x
	}
	kept, theirs := full(s, 2), full(other, 2) // a row on each
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		// three rows on the first, two on the second, which has room for them
		big := full(s, 5)
		err := s.Sync()
		if !errors.Is(err, tensor.ErrNoSpace) || !strings.Contains(err.Error(), "quota") || !strings.Contains(err.Error(), fmt.Sprint(3*4*wide)) {
			t.Errorf("round %d: %v, expected %v with what was asked for", round, err, tensor.ErrNoSpace)
		}
		s.ClearErr()
		big.Free()
		if got, err := kept.Sum().Item(); err != nil || got != 2*wide {
			t.Errorf("round %d: what was there has the sum %v, %v", round, got, err)
		}
		if got, err := theirs.AddS(1).Sum().Item(); err != nil || got != 4*wide {
			t.Errorf("round %d: another session: %v, %v", round, got, err)
		}
		fits := full(s, 4)
		if got, err := fits.Sum().Item(); err != nil || got != 4*wide {
			t.Errorf("round %d: what has room: %v, %v", round, got, err)
		}
		fits.Free()
	}
}

// TestLateWorker: a worker that connects while sessions run is no part of those, and of
// the next one if it needs it.
func TestLateWorker(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Workers: 1})
	early := tensor.NewSession(dial(t, c, nil), nil)
	x := tensor.Full(early, tensor.F32, 1, 1000)
	if got, err := x.Sum().Item(); err != nil || got != 1000 {
		t.Fatal(got, err)
	}
	type opened struct {
		e   *client.Engine
		err error
	}
	wants := make(chan opened, 1)
	go func() { // it waits for a second worker, or comes after it
		e, err := client.Dial(testContext(t), c.Addr(), &client.Options{Config: rows(2)})
		wants <- opened{e, err}
	}()
	w, err := worker.New(&worker.Options{Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx, c.Addr()) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	two := <-wants
	if two.err != nil {
		t.Fatal(two.err)
	}
	s := tensor.NewSession(two.e, nil)
	var y *tensor.Tensor
	s.Signal("rows", func() { y = tensor.Full(s, tensor.F32, 2, 1000, 3) })
	for round := range 3 {
		if got, err := y.Sum().Item(); err != nil || got != 6000 {
			t.Errorf("round %d: the session of two: %v, %v", round, got, err)
		}
		if got, err := x.AddS(1).Sum().Item(); err != nil || got != 2000 {
			t.Errorf("round %d: the session that was there: %v, %v", round, got, err)
		}
	}
	if st := two.e.Stats(); st.Calls < 2 {
		t.Errorf("%d collectives of the session of two, expected some", st.Calls)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestKindWanted tests that a session that wants a kind of device which no worker has is
// told so, and that one that wants the workers' kind is opened.
func TestKindWanted(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Dispatcher: &dispatcher.Options{WorkerWait: -1}})
	if _, err := client.Dial(testContext(t), c.Addr(), &client.Options{Kind: device.CUDA}); !errors.Is(err, client.ErrNoWorker) || !strings.Contains(err.Error(), "kind cuda: 1, 0 are") {
		t.Errorf("a CUDA session of cpu workers: %v", err)
	}
	if _, err := client.Dial(testContext(t), c.Addr(), &client.Options{Kind: device.CPU, MixKinds: true}); !errors.Is(err, ipc.ErrBadOption) {
		t.Errorf("one kind and several: %v", err)
	}
	e := dial(t, c, &client.Options{Kind: device.CPU})
	if got, err := tensor.From(tensor.NewSession(e, nil), []float32{1, 2}).Sum().Item(); err != nil || got != 3 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestConfigOfAnyNumber: a config that gives no number of workers is for as many as the
// options say. Without any it is refused if it cuts tensors, which one worker has whole.
func TestConfigOfAnyNumber(t *testing.T) {
	c := start(t, cluster.Options{Workers: 2, InProcess: true})
	if e := dial(t, c, &client.Options{Workers: 2, Config: rows(0)}); e.Workers() != 2 {
		t.Errorf("a session of %d workers, expected 2", e.Workers())
	}
	if _, err := client.Dial(testContext(t), c.Addr(), &client.Options{Config: rows(0)}); !errors.Is(err, ipc.ErrBadOption) || !strings.Contains(err.Error(), "workers: 2") {
		t.Errorf("no number of workers: %v", err)
	}
	if e := dial(t, c, &client.Options{Config: &config.Config{Signals: []config.Signal{{Name: "x", Compile: new(bool)}}}}); e.Workers() != 1 {
		t.Errorf("a session of %d workers, expected 1", e.Workers())
	}
}
