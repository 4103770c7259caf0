package cluster_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/explain"
)

// TestCompileInAConfig: a worker takes a step for each operation of a program that has a
// signal with "compile: false", and one for a chain of them otherwise; the results are
// the same.
func TestCompileInAConfig(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			var steps atomic.Int64
			c := start(t, cluster.Options{Workers: workers, InProcess: true, Worker: func(name string) (*worker.Options, error) {
				d, err := cpu.New(&cpu.Options{Arena: shm.ArenaOptions{Segment: worker.Segments()}, Trace: func(explain.Plan, int, time.Duration) { steps.Add(1) }})
				return &worker.Options{Name: name, Device: d}, err
			}})
			var sums [2]float64
			var taken [2]int64
			for i, compile := range []bool{true, false} {
				conf := rows(workers)
				conf.Signals[0].Compile = &compile
				s := tensor.NewSession(dial(t, c, &client.Options{Config: conf}), nil)
				var x *tensor.Tensor
				s.Signal("rows", func() { x = tensor.From(s, []float32{1, 2, 3, 4, 5, 6}, 6, 1) })
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				before := steps.Load()
				var y *tensor.Tensor
				s.Scope(func(sc *tensor.Scope) { y = sc.Keep(x.MulS(2).AddS(1).ReLU().Square()) })
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				taken[i] = steps.Load() - before
				var err error
				if sums[i], err = y.Sum().Item(); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if n := int64(workers); taken != [2]int64{n, 4 * n} || sums[0] != 9+25+49+81+121+169 || sums[1] != sums[0] {
				t.Errorf("%d steps and a sum of %v, expected %d and %d", taken, sums, n, 4*n)
			}
		})
	}
}
