package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard/config"
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
func runReduce(ctx context.Context, o *Options) (r *Report, err error) {
	r = &Report{Bench: "reduce"}
	numbers := o.Reduce.Workers
	if len(numbers) == 0 {
		numbers = []int{1, 2, 4}
	}
	rigs := map[int]*reducers{}
	defer func() {
		for _, g := range rigs {
			err = errors.Join(err, g.close())
		}
	}()
	for _, n := range numbers {
		if rigs[n], err = newReducers(ctx, o, n); err != nil {
			return nil, err
		}
	}
	for _, n := range numbers {
		if n == 1 {
			continue
		}
		worst, err := rigs[n].beside(ctx, o, r)
		if err != nil {
			return nil, fmt.Errorf("%d workers: %w", n, err)
		}
		if n == 2 || n == 4 {
			r.atLeast(fmt.Sprintf("reduce_over_fetch_%dw", n), worst, minReduceOverFetch)
		}
	}
	if one, two := rigs[1], rigs[2]; one != nil && two != nil {
		worst, err := compareReducers(ctx, o, r, one, two)
		if err != nil {
			return nil, err
		}
		r.atMost("reduce_sharded_over_unsharded", worst, maxReduceShardedOverWhole)
	}
	total := 0.0
	for _, n := range numbers {
		st, err := client.Status(ctx, nil, rigs[n].cluster.Addr())
		if err != nil {
			return nil, err
		}
		total += float64(st.Get("tensor_bytes"))
	}
	r.atMost("reduce_dispatcher_tensor_bytes", total, 0)
	return r, nil
}

// reducers are the workers of one session, which together have as many threads as this
// machine has cores, or one each.
type reducers struct {
	n       int
	cluster *cluster.Cluster
	engine  *client.Engine
	sess    *tensor.Session
}

func newReducers(ctx context.Context, o *Options, n int) (*reducers, error) {
	c, err := cluster.Start(context.WithoutCancel(ctx), &cluster.Options{Workers: n, Threads: max(2/n, 1), Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	e, err := client.Dial(ctx, c.Addr(), &client.Options{Config: config.DataParallel(n)})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &reducers{n, c, e, tensor.NewSession(e, nil)}, nil
}

func (g *reducers) close() error { return errors.Join(g.sess.Close(), g.cluster.Close()) }

// tensor is one of n float32 that lies by rows.
func (g *reducers) tensor(n int) (x *tensor.Tensor, err error) {
	src := make([]float32, n)
	for i := range src {
		src[i] = float32(i % 251)
	}
	g.sess.Signal("batch", func() { x = tensor.From(g.sess, src, n/256, 256) })
	y := x.AddS(0) // made by the workers, in their memory
	x.Free()
	_, err = y.Sum().Item()
	return y, err
}

// took is the microseconds that f takes, the mean of n times.
func took(n int, f func() error) (float64, error) {
	start := time.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	return micros(time.Since(start)) / float64(n), nil
}

// reduction reads one number.
func reduction(x *tensor.Tensor, of func(*tensor.Tensor) *tensor.Tensor) error {
	t := of(x)
	defer t.Free()
	_, err := t.Item()
	return err
}

// beside measures reductions of 64 MB, and the least ratio of what fetching takes to it.
func (g *reducers) beside(_ context.Context, o *Options, r *Report) (worst float64, err error) {
	x, err := g.tensor(o.work(reduceBytes/4/256) * 256)
	if err != nil {
		return 0, err
	}
	defer x.Free()
	here, err := cpu.NewSession(&cpu.Options{Threads: runtime.NumCPU()}, nil)
	if err != nil {
		return 0, err
	}
	defer here.Close()
	for _, op := range reduceOps {
		together := &series{name: fmt.Sprintf("%s of 64 MB on %d workers", op.name, g.n), unit: "us"}
		fetched := &series{name: fmt.Sprintf("%s of 64 MB on %d workers, fetched", op.name, g.n), unit: "us"}
		before := g.engine.Stats()
		for range o.rounds(7) {
			us, err := took(o.work(4), func() error { return reduction(x, op.of) })
			if err != nil {
				return 0, err
			}
			together.add(us)
			us, err = took(1, func() error { return g.fetch(here, x, op.of) })
			if err != nil {
				return 0, err
			}
			fetched.add(us)
		}
		if now := g.engine.Stats(); now.Calls == before.Calls {
			return 0, fmt.Errorf("bench: no collective for the %s of a tensor on %d workers", op.name, g.n)
		}
		r.measured(together)
		r.measured(fetched)
		if q := ratio(fetched, together); worst == 0 || q < worst {
			worst = q
		}
	}
	return worst, nil
}

// fetch brings x here, reduces it, and uploads the result.
func (g *reducers) fetch(here *tensor.Session, x *tensor.Tensor, of func(*tensor.Tensor) *tensor.Tensor) error {
	return tensor.View(x, func(data []float32) error {
		t := tensor.From(here, data, x.Shape()...)
		defer t.Free()
		sum := of(t)
		defer sum.Free()
		v, err := sum.Item()
		if err != nil {
			return err
		}
		back := tensor.From(g.sess, []float32{float32(v)})
		defer back.Free()
		return g.sess.Sync()
	})
}

// compareReducers measures sums with one worker that has everything and two threads, and
// with two that have half and one thread. Where the two cores are near each other they
// may be the threads of one, and two workers no faster than one.
func compareReducers(ctx context.Context, o *Options, r *Report, one, two *reducers) (worst float64, err error) {
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	f, err := buildFloor(ctx, dir)
	if err != nil && !errors.Is(err, errNoFloor) {
		return 0, err
	}
	var lines []*series
	for _, size := range reduceSizes {
		var sides []side
		for _, g := range []*reducers{one, two} {
			x, err := g.tensor(o.work(size.bytes/4/256) * 256)
			if err != nil {
				return 0, err
			}
			defer x.Free()
			sides = append(sides, side{fmt.Sprintf("sum of %s on %d workers of %d threads", size.name, g.n, max(2/g.n, 1)), size.reps,
				func(_ context.Context, n int) ([]float64, error) {
					us, err := took(n, func() error { return reduction(x, reduceOps[0].of) })
					return []float64{us}, err
				}})
		}
		all, line, err := interleave(ctx, o, f, o.rounds(9), "us", sides)
		if err != nil {
			return 0, err
		}
		r.measured(all[0])
		r.measured(all[1])
		worst = max(worst, ratio(all[1], all[0]))
		for _, l := range line {
			if have := find(lines, l.name); have != nil {
				have.rounds = append(have.rounds, l.rounds...)
			} else {
				lines = append(lines, l)
			}
		}
	}
	for _, l := range lines {
		r.measured(l)
	}
	return worst, nil
}
