package cluster_test

import (
	"context"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// watched is what a worker says of its sessions, by the names of the clients.
func watched(ctx context.Context, t *testing.T, w *client.Monitor, worker string) map[string]client.WorkerSession {
	t.Helper()
	if err := w.Ask(ctx, client.Question{Worker: worker}); err != nil {
		t.Fatal(err)
	}
	for {
		answer, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := answer.(*client.WorkerReport); ok && a.Worker == worker {
			by := map[string]client.WorkerSession{}
			for _, s := range a.Sessions {
				by[s.Name] = s
			}
			return by
		}
	}
}

// TestHeavyAndLight: while one session floods its workers with long programs, another
// takes small steps and waits for each. Between two of these little of the flood is done
// (a turn or two; a busy machine may keep the small one from asking for its next), and
// not all that was sent ahead, whichever of the two is on several workers; and the flood
// goes on.
func TestHeavyAndLight(t *testing.T) {
	const steps, most = 30, 16
	for _, c := range []struct {
		name                  string
		workers, heavy, light int
	}{
		{"both on one worker", 1, 1, 1},
		{"heavy on two workers, light on one of them", 2, 2, 1},
		{"heavy on one worker, light on two", 2, 1, 2},
		{"both on two workers", 2, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			cl := start(t, cluster.Options{Workers: c.workers, InProcess: true})
			on := func(name string, n int) *client.Options {
				o := &client.Options{Name: name}
				if n > 1 {
					o.Config = config.DataParallel(n)
				}
				return o
			}
			he := dial(t, cl, on("heavy", c.heavy))
			le := dial(t, cl, on("light", c.light))
			at, _ := le.Worker()
			if c.heavy == 1 {
				at, _ = he.Worker()
			}
			watch, err := client.NewMonitor(ctx, nil, cl.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Close()

			hs, ls := tensor.NewSession(he, nil), tensor.NewSession(le, nil)
			var a, b, x *tensor.Tensor
			hs.Signal("batch", func() { a = tensor.Full(hs, tensor.F32, 1, 256, 256) })
			b = tensor.Full(hs, tensor.F32, 1.0/256, 256, 256)
			ls.Signal("batch", func() { x = tensor.Full(ls, tensor.F32, 2, 8, 8) })
			long := func() error {
				var sum *tensor.Tensor
				hs.Scope(func(sc *tensor.Scope) {
					y := a
					for range 8 {
						y = y.Matmul(b)
					}
					sum = sc.Keep(y.Sum())
				})
				defer sum.Free()
				return hs.Flush()
			}
			if err := long(); err != nil {
				t.Fatal(err)
			}
			if err := hs.Sync(); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var flood sync.WaitGroup
			flood.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := long(); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
			defer flood.Wait()
			defer close(stop)
			for watched(ctx, t, watch, at)["heavy"].Runs < 10 { // until it floods
			}
			step := func() {
				y := x.MulS(3).Sum()
				defer y.Free()
				if v, err := y.Item(); err != nil || v != 6*64 {
					t.Fatalf("%v, %v", v, err)
				}
			}
			step()
			before := watched(ctx, t, watch, at)
			for range steps {
				step()
			}
			after := watched(ctx, t, watch, at)
			runs := after["heavy"].Runs - before["heavy"].Runs
			busy := func(name string) uint64 { return after[name].Busy - before[name].Busy }
			t.Logf("%d batches of the flood in %d steps; %s worked %d us for it and %d us for the steps", runs, steps, at, busy("heavy")/1000, busy("light")/1000)
			if n := after["light"].Runs - before["light"].Runs; n < steps {
				t.Errorf("%d batches in %d steps", n, steps)
			}
			if runs > most*steps || runs == 0 {
				t.Errorf("%d batches of the flood were done in %d steps, expected 1 to %d", runs, steps, most*steps)
			}
		})
	}
}
