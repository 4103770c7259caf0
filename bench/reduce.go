package bench

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cpu"
)

const (
	minReduceOverFetch        = 4
	maxReduceShardedOverWhole = 1.15

	reduceBytes = 64 << 20
)

// reduceSizes are those at which several workers are compared with one: from the first on
// they are to be as fast.
var reduceSizes = [...]struct {
	name  string
	bytes int
	// In a round, of some 20 ms: the others slept during the one before, and waking up is
	// little of it.
	reps int
}{
	{"1MB", 1 << 20, 1000},
	{"16MB", 16 << 20, 20},
	{"64MB", reduceBytes, 8},
}

var reduceOps = [...]struct {
	name string
	of   func(*tensor.Tensor) *tensor.Tensor
}{
	{"sum", func(t *tensor.Tensor) *tensor.Tensor { return t.Sum() }},
	{"mean", func(t *tensor.Tensor) *tensor.Tensor { return t.Mean() }},
	{"max", func(t *tensor.Tensor) *tensor.Tensor { return t.Max() }},
}

// ReduceOptions choose what the scenario reduce times.
type ReduceOptions struct {
	// Workers are numbers of workers; nil is 1, 2 and 4. A bar is judged if its numbers
	// are among them.
	Workers []int
}

// runReduce times reductions of a tensor of which several workers have a part each: among
// themselves, and beside it as systems do it that know no collectives: everything comes
// to one place, is reduced there with all cores of this machine, and the result is sent
// back. And two workers of one thread beside one of two, which has the whole.
func runReduce(r *run) {
	numbers := r.Reduce.Workers
	if len(numbers) == 0 {
		numbers = []int{1, 2, 4}
	}
	rigs := map[int]*rig{}
	for _, n := range numbers {
		rigs[n] = r.through(n, max(2/n, 1))
	}
	for _, n := range numbers {
		if n == 1 {
			continue
		}
		within(count(n, "worker"), func() {
			worst := besideFetching(r, rigs[n], n)
			if n == 2 || n == 4 {
				r.atLeast(fmt.Sprintf("reduce_over_fetch_%dw", n), worst, minReduceOverFetch)
			}
		})
	}
	if one, two := rigs[1], rigs[2]; one != nil && two != nil {
		r.atMost("reduce_sharded_over_unsharded", compareReducers(r, one, two), maxReduceShardedOverWhole)
	}
	total := 0.0
	for _, n := range numbers {
		total += float64(must(client.Status(r.ctx, nil, rigs[n].cluster.Addr())).Get(metrics.TensorBytes))
	}
	r.atMost("reduce_dispatcher_tensor_bytes", total, 0)
}

// reducible makes a tensor of so many bytes by the scale, of float32, that lies by rows.
func reducible(r *run, g *rig, bytes int) (x *tensor.Tensor) {
	src := make([]float32, r.work(bytes/4/256)*256)
	for i := range src {
		src[i] = float32(i % 251)
	}
	g.sess.Signal("batch", func() { x = tensor.From(g.sess, src, len(src)/256, 256) })
	y := x.AddS(0) // made by the workers, in their memory
	x.Free()
	must(y.Sum().Item())
	return y
}

// took is the microseconds that f takes, the mean of n times.
func took(n int, f func()) []float64 {
	start := time.Now()
	for range n {
		f()
	}
	return []float64{float64(time.Since(start)) / float64(micros) / float64(n)}
}

// reduction reads one number.
func reduction(x *tensor.Tensor, of func(*tensor.Tensor) *tensor.Tensor) float64 {
	t := of(x)
	defer t.Free()
	return must(t.Item())
}

// besideFetching measures reductions of 64 MB on n workers, and the least ratio of what
// fetching takes to it.
func besideFetching(r *run, g *rig, n int) (worst float64) {
	x := reducible(r, g, reduceBytes)
	defer x.Free()
	here := r.inProcess(&cpu.Options{Threads: runtime.NumCPU()}).sess
	for _, op := range reduceOps {
		name := fmt.Sprintf("%s of 64 MB on %d workers", op.name, n)
		together := sampled(name, "us", 4, func(n int) []float64 { return took(n, func() { reduction(x, op.of) }) })
		fetched := sampled(name+", fetched", "us", 1, func(n int) []float64 {
			return took(n, func() { check(fetch(here, g.sess, x, op.of)) })
		})
		before := g.client.Stats()
		r.measure(turns{rounds: r.rounds(7)}, together, fetched)
		if now := g.client.Stats(); now.Calls == before.Calls {
			check(fmt.Errorf("bench: no collective for the %s of a tensor on %d workers", op.name, n))
		}
		if q := ratio(fetched.series, together.series); worst == 0 || q < worst {
			worst = q
		}
	}
	return worst
}

// fetch brings x here, reduces it, and uploads the result.
func fetch(here, there *tensor.Session, x *tensor.Tensor, of func(*tensor.Tensor) *tensor.Tensor) error {
	return tensor.View(x, func(data []float32) error {
		t := tensor.From(here, data, x.Shape()...)
		defer t.Free()
		back := tensor.From(there, []float32{float32(reduction(t, of))})
		defer back.Free()
		return there.Sync()
	})
}

// compareReducers measures sums with one worker that has everything and two threads, and
// with two that have half and one thread. Where the two cores are near each other they
// may be the threads of one, and two workers no faster than one.
func compareReducers(r *run, one, two *rig) (worst float64) {
	line := r.floor()
	for _, size := range reduceSizes {
		sum := func(g *rig, workers int) side {
			x := reducible(r, g, size.bytes)
			name := fmt.Sprintf("sum of %s on %d workers of %d threads", size.name, workers, 2/workers)
			return sampled(name, "us", size.reps, func(n int) []float64 { return took(n, func() { reduction(x, reduceOps[0].of) }) })
		}
		whole, parts := sum(one, 1), sum(two, 2)
		r.measure(turns{rounds: r.rounds(9), line: line}, whole, parts)
		worst = max(worst, ratio(parts.series, whole.series))
	}
	return worst
}
