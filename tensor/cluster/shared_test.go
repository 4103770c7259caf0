package cluster_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// rows is a config for n workers that cuts what is made under "rows" by rows and under
// "columns" by columns.
func rows(n int) *config.Config {
	return &config.Config{NumWorkers: n, Signals: []config.Signal{
		{Name: "rows", Shard: &config.Shard{}}, {Name: "columns", Shard: &config.Shard{Axis: 1}}}}
}

// TestTogether: several workers have parts of a tensor, reduce it among themselves, and
// the client reads it as a whole.
func TestTogether(t *testing.T) {
	for n := 1; n <= 4; n++ {
		if testing.Short() && n != 3 {
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: n, InProcess: testing.Short()})
			e := dial(t, c, &client.Options{Config: rows(n)})
			s := tensor.NewSession(e, nil)
			const h, w = 37, 50
			data := make([]float32, h*w)
			want := 0.0
			for i := range data {
				data[i] = float32(i % 100)
				want += float64(data[i])
			}
			var x *tensor.Tensor
			s.Signal("rows", func() { x = tensor.From(s, data, h, w) })
			for round := range 3 {
				got, err := x.Sum().Item()
				if err != nil || got != want {
					t.Fatalf("round %d: sum %v, %v; expected %v", round, got, err, want)
				}
			}
			y := x.MulS(2)
			got, err := tensor.Data[float32](y)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if got[i] != 2*data[i] {
					t.Fatalf("element %d is %v, expected %v", i, got[i], 2*data[i])
				}
			}
			st := e.Stats()
			t.Logf("%+v", st)
			if n == 1 {
				return
			}
			// Three sums of one number, in two programs: with and without the upload.
			// Doubling it moves nothing.
			if st.Calls != 3 || st.Moved != 3*uint64(4*2*(n-1)/n) || st.Plans > 3 {
				t.Errorf("%d collectives of %d bytes, %d plans", st.Calls, st.Moved, st.Plans)
			}
		})
	}
}

// TestTogetherConformance: workers that run programs together are an engine like any
// other.
func TestTogetherConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("a suite of its own")
	}
	for _, n := range []int{2, 3} {
		if testsize.Raced && n == 2 {
			continue // a minute for what three do too
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := start(t, cluster.Options{Workers: n})
			enginetest.Run(t, func(t *testing.T) tensor.Engine {
				return dial(t, c, &client.Options{Config: &config.Config{NumWorkers: n, AutoShard: true}})
			}, &enginetest.Options{
				Grad: autograd.Grad,
				// A worker whose device tells failures late has sent bytes of values that
				// do not exist by then (docs/decisions.md).
				Whole: *onDevice == "apart",
				PlanHits: func(e tensor.Engine) uint64 {
					s := e.(*client.Engine).Stats()
					return s.Batches - s.Bodies
				},
			})
		})
	}
}

// numbers are n floats, none of which is a nice one.
func numbers(n, seed int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32((i*2654435761+seed*40503)%1000)/500 - 1
	}
	return out
}

// TestTogetherProducts: products move exactly what they have to: nothing when rows or
// columns are cut, one all-reduce when the inner dim is, and one for two products of
// which the first is cut by columns and the second by rows.
func TestTogetherProducts(t *testing.T) {
	const m, k, n = 12, 16, 20
	made := func(s *tensor.Session, signal string, rows, cols, seed int) (x *tensor.Tensor) {
		s.Signal(signal, func() { x = tensor.From(s, numbers(rows*cols, seed), rows, cols) })
		return x
	}
	for what, c := range map[string]struct {
		calls uint64
		of    func(s *tensor.Session) *tensor.Tensor
	}{
		"rows": {0, func(s *tensor.Session) *tensor.Tensor {
			return made(s, "rows", m, k, 1).Matmul(made(s, "whole", k, n, 2))
		}},
		"columns": {0, func(s *tensor.Session) *tensor.Tensor {
			return made(s, "whole", m, k, 1).Matmul(made(s, "columns", k, n, 2))
		}},
		"inner": {1, func(s *tensor.Session) *tensor.Tensor {
			return made(s, "columns", m, k, 1).Matmul(made(s, "rows", k, n, 2))
		}},
		"columns, then rows": {1, func(s *tensor.Session) *tensor.Tensor {
			return made(s, "whole", m, k, 1).Matmul(made(s, "columns", k, n, 2)).Tanh().Matmul(made(s, "rows", n, k, 3))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			alone := start(t, cluster.Options{InProcess: true})
			want, err := tensor.Data[float32](c.of(session(t, alone)))
			if err != nil {
				t.Fatal(err)
			}
			for workers := 2; workers <= 4; workers++ {
				cl := start(t, cluster.Options{InProcess: true, Workers: workers})
				e := dial(t, cl, &client.Options{Config: rows(workers)})
				y := c.of(tensor.NewSession(e, nil))
				got, err := tensor.Data[float32](y)
				if err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if d := math.Abs(float64(got[i] - want[i])); d > 1e-5 {
						t.Fatalf("%d workers: element %d is %v, expected %v", workers, i, got[i], want[i])
					}
				}
				st := e.Stats()
				t.Logf("%d workers: %d collectives, %d bytes sent by each", workers, st.Calls, st.Moved)
				moved := uint64(0)
				if c.calls > 0 {
					moved = uint64(2 * 4 * len(want) * (workers - 1) / workers)
				}
				if st.Calls != c.calls || st.Moved != moved {
					t.Errorf("%d workers: %d collectives of %d bytes, expected %d of %d", workers, st.Calls, st.Moved, c.calls, moved)
				}
			}
		})
	}
}

// TestTogetherTraining: a training run is the same on any number of workers, and each of
// its steps a message a worker.
func TestTogetherTraining(t *testing.T) {
	steps := 200
	train := func(workers int) ([]float64, client.Stats) {
		c := start(t, cluster.Options{InProcess: true, Workers: workers})
		e := dial(t, c, &client.Options{Config: config.DataParallel(workers)})
		s := tensor.NewSession(e, nil)
		m := newModel(s)
		losses := make([]float64, steps)
		for i := range losses {
			var loss *tensor.Tensor
			s.Signal("batch", func() { loss = m.step(i) })
			v, err := loss.Item()
			if err != nil {
				t.Fatalf("%d workers, step %d: %v", workers, i, err)
			}
			loss.Free()
			losses[i] = v
		}
		return losses, e.Stats()
	}
	want, one := train(1)
	for _, workers := range []int{2, 3, 4} {
		got, st := train(workers)
		for i := range want {
			if d := math.Abs(got[i]-want[i]) / math.Abs(want[i]); d > 1e-4 {
				t.Fatalf("%d workers: step %d has loss %v, expected %v", workers, i, got[i], want[i])
			}
		}
		if st.Messages != one.Messages || st.Bodies != one.Bodies || st.Calls < uint64(steps) || st.Plans > 3 {
			t.Errorf("%d workers: %+v; one worker: %+v", workers, st, one)
		}
	}
}

// TestTogetherFails: what goes wrong on one worker goes wrong on all, is told as one
// worker would tell it, and costs only the batch.
func TestTogetherFails(t *testing.T) {
	for n := 2; n <= 4; n++ {
		c := start(t, cluster.Options{InProcess: true, Workers: n})
		e := dial(t, c, &client.Options{Config: rows(n)})
		s := tensor.NewSession(e, nil)
		table := tensor.From(s, numbers(20, 1), 10, 2)
		sum := func(last int64) (float64, error) {
			var at *tensor.Tensor
			s.Signal("rows", func() { at = tensor.From(s, []int64{0, 1, 2, 3, 4, 5, 6, last}) })
			// The indices lie by rows, so that only the last worker has the one that may
			// be wrong, and the others come to the all-reduce without it.
			y := table.IndexSelect(0, at).Sum(0).Square().Sum()
			defer y.Free()
			return y.Item()
		}
		failsOnce(t, fmt.Sprintf("%d workers", n), s, sum, 5, 10)
		// of a sum that is taken when it is read
		read := func(last int64) (float64, error) {
			var at *tensor.Tensor
			s.Signal("rows", func() { at = tensor.From(s, []int64{0, 1, 2, 3, 4, 5, 6, last}) })
			y := table.IndexSelect(0, at).Sum()
			defer y.Free()
			return y.Item()
		}
		failsOnce(t, fmt.Sprintf("%d workers, read", n), s, read, 5, 10)
	}
}

// failsOnce has an index of sum be good, bad and good again: the bad one is told as one
// worker would tell it, and costs only its batch.
func failsOnce(t *testing.T, who string, s *tensor.Session, sum func(at int64) (float64, error), good, bad int64) {
	t.Helper()
	want, err := sum(good)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sum(bad)
	var at *tensor.OpError
	if !errors.Is(err, tensor.ErrIndex) || !errors.As(err, &at) || at.Op != "index_select" {
		t.Errorf("%s: %v, expected index_select and %v", who, err, tensor.ErrIndex)
	}
	if err := s.ClearErr(); err != nil {
		t.Logf("cleared: %v", err)
	}
	if got, err := sum(good); err != nil || got != want {
		t.Errorf("%s, afterwards: %v, %v; expected %v", who, got, err, want)
	}
}

// TestTogetherCrowd: sessions of the same name that share workers, one to four each,
// neither wait for each other's nor get others' numbers.
func TestTogetherCrowd(t *testing.T) {
	rounds := uint64(40)
	if testing.Short() {
		rounds = 10
	}
	for _, clients := range []int{2, 5, 20} {
		c := start(t, cluster.Options{InProcess: true, Workers: 4})
		errs := make(chan error, clients)
		for i := range clients {
			n := 4 - i%4
			e := dial(t, c, &client.Options{Name: "same", Config: rows(n)})
			go func() {
				s := tensor.NewSession(e, nil)
				var x *tensor.Tensor
				s.Signal("rows", func() { x = tensor.From(s, wholes(60, i), 10, 6).AddS(float64(i)) })
				want, sums := 0.0, [6]float64{}
				for k, v := range wholes(60, i) {
					sums[k%6] += float64(v) + float64(i)
				}
				for _, v := range sums { // of x times its transpose
					want += v * v
				}
				for r := range rounds {
					y := x.Matmul(x.T()).Sum()
					v, err := y.Item()
					y.Free()
					if err != nil || v != want {
						errs <- fmt.Errorf("client %d of %d workers, round %d: %v, %w; expected %v", i, n, r, v, err, want)
						return
					}
				}
				if st := e.Stats(); (st.Calls >= rounds) != (n > 1) {
					errs <- fmt.Errorf("client %d of %d workers: %d collectives", i, n, st.Calls)
					return
				}
				errs <- nil
			}()
		}
		for range clients {
			if err := <-errs; err != nil {
				t.Errorf("of %d: %v", clients, err)
			}
		}
	}
}

// TestTogetherWorkerDies: the session of a worker that is killed is over, with an error
// that says which it was, and others can begin. The dispatcher knows its name, the other
// worker its rank and process, and either may be the first to tell.
func TestTogetherWorkerDies(t *testing.T) {
	c := start(t, cluster.Options{Workers: 2, Restart: true})
	e := dial(t, c, &client.Options{Config: rows(2)})
	s := tensor.NewSession(e, nil)
	var x *tensor.Tensor
	s.Signal("rows", func() { x = tensor.From(s, numbers(400, 1), 20, 20) })
	if _, err := x.Sum().Item(); err != nil {
		t.Fatal(err)
	}
	process := ""
	for _, p := range c.Parts() {
		if p.Role == cluster.RoleWorker && p.Name == "w1" {
			process = fmt.Sprint("process ", p.PID)
			kill(t, p.PID)
		}
	}
	var err error
	for err == nil {
		_, err = x.Sum().Item()
	}
	if !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), `worker "w1"`) && !strings.Contains(err.Error(), process) {
		t.Errorf("%v, expected %v that names w1 or %s", err, client.ErrLost, process)
	}
	// Its successor may not be there yet: the dispatcher waits for it.
	for range 100 {
		var again *client.Engine
		if again, err = client.Dial(testContext(t), c.Addr(), &client.Options{Config: rows(2)}); err == nil {
			_, err = tensor.Full(tensor.NewSession(again, nil), tensor.F32, 1, 10).Sum().Item()
			again.Close()
			break
		}
	}
	if err != nil {
		t.Errorf("a session afterwards: %v", err)
	}
}

// TestTooFewWorkers tests that a client that wants more workers than there are is told
// their number, and what to do.
func TestTooFewWorkers(t *testing.T) {
	c := start(t, cluster.Options{InProcess: true, Workers: 2, Dispatcher: &dispatcher.Options{WorkerWait: -1}})
	_, err := client.Dial(testContext(t), c.Addr(), &client.Options{Workers: 3})
	if !errors.Is(err, client.ErrNoWorker) || !strings.Contains(err.Error(), "needs 3 workers, 2 are connected") || !strings.Contains(err.Error(), "-n 3") {
		t.Error(err)
	}
}
