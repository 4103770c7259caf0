package bench

import (
	"fmt"
	"io"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// knob is one choice of a user, both ways. The sides measure the same work.
type knob struct {
	topic        string
	slower, fast string // the choice in words; which is faster is what is measured
	sides        func(r *run, k *knob) (slower, fast side)
}

// guideKnobs are the rows of the table in docs/tuning.md.
func guideKnobs() []knob {
	return []knob{
		{"round trips", "each of 64 operations waited for", "all of them in one program, which is waited for", guideTrips},
		{"round trips", "the loss of every step read", "the loss of every tenth step read", guideReads},
		{"batch", "each of 64 operations sent by itself (`tensor.SessionOptions.Batch` of 1)", "all of them in one message", guideBatch},
		{"batch", "32 messages of each of two sessions in turns (`worker --batch-messages 1`)", "8 of a session at a time", guideSessions},
		{"programs", "64 operations on a new shape every time, so a new program", "the same shapes, so a program that is known", guideShapes},
		{"compile", "a chain of operations one by one (`cpu.Options.NoFuse`)", "the chain fused", guideFusion},
		{"compile", "training step of `qwen_t64` under `batch: {compile: false}` of a config", "the step compiled", guideCompile},
		{"transfer", "64 MiB uploaded for every sum", "the tensor stays with the worker", guideUploads},
		{"transfer", "a result of 16 MiB copied (`Data`)", "read where it lies (`View`)", guideViews},
		{"threads", "a worker with one thread, product of 512 x 512", "with two", guideThreads},
		{"placement", "training step of `qwen_t128` on one worker of one thread", "on two, each with half of the batch", guidePlacement},
		{"page size", "sum of two tensors of 64 MiB in pages of 4 KiB", "in huge pages (`shm.Options.Huge`), where the system gives them", guidePages},
	}
}

// runGuide measures every knob both ways, in turns, and prints a table in Markdown.
func runGuide(r *run) {
	knobs := guideKnobs()
	var sides []side
	for i := range knobs {
		slower, fast := knobs[i].sides(r, &knobs[i])
		sides = append(sides, slower, fast)
		r.progress("prepared", knobs[i].topic)
	}
	r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
	r.table = func(w io.Writer) error {
		if _, err := fmt.Fprintln(w, "| | one way | the other | takes | least to most |\n|---|---|---|---|---|"); err != nil {
			return err
		}
		for i, k := range knobs {
			by := ratios(sides[2*i+1].series, sides[2*i].series)
			if _, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s to %s |\n", k.topic, k.slower, k.fast,
				figure(quantile(by, 0.5)), figure(slices.Min(by)), figure(slices.Max(by))); err != nil {
				return err
			}
		}
		return nil
	}
}

// ratios are a's medians by b's, round by round.
func ratios(a, b *series) []float64 {
	out := make([]float64, min(len(a.rounds), len(b.rounds)))
	for i := range out {
		out[i] = quantile(a.rounds[i], 0.5) / quantile(b.rounds[i], 0.5)
	}
	return out
}

// both makes the two sides of a knob from functions that do the work once.
func (r *run) both(k *knob, n int, slower, fast func()) (a, b side) {
	times := func(f func()) func(n int) []float64 {
		return func(n int) []float64 { return r.samples(n, micros, f) }
	}
	return sampled(k.slower, "µs", n, times(slower)), sampled(k.fast, "µs", n, times(fast))
}

// chainOf records n operations on x, 1 or more, and returns the result.
func chainOf(x *tensor.Tensor, n int) (y *tensor.Tensor) {
	x.Session().Scope(func(sc *tensor.Scope) {
		y = x
		for range n {
			y = y.ReLU()
		}
		sc.Keep(y)
	})
	return y
}

func guideTrips(r *run, k *knob) (slower, fast side) {
	const operations = 64
	s := r.through(1, 1).sess
	x := tensor.RandN(s, tensor.F32, 16, 16)
	return r.both(k, 100, func() {
		y := x.ReLU()
		check(s.Sync())
		for range operations - 1 {
			z := y.ReLU()
			y.Free()
			y = z
			check(s.Sync())
		}
		y.Free()
	}, func() {
		y := chainOf(x, operations)
		check(s.Sync())
		y.Free()
	})
}

func guideBatch(r *run, k *knob) (slower, fast side) {
	const operations = 64
	do := func(batch int) func() {
		s := r.dialed(r.start(1, 1), nil, &tensor.SessionOptions{Batch: batch})
		x := tensor.RandN(s, tensor.F32, 16, 16)
		return func() {
			y := chainOf(x, operations)
			check(s.Sync())
			y.Free()
		}
	}
	return r.both(k, 100, do(1), do(0))
}

func guideSessions(r *run, k *knob) (slower, fast side) {
	const messages = 32
	do := func(batch int) func() {
		c := r.startWith(&cluster.Options{Workers: 1, Threads: 1, Batch: batch})
		var sessions [2]*tensor.Session
		var x [2]*tensor.Tensor
		for i := range sessions {
			sessions[i] = r.dialed(c, nil, nil)
			x[i] = tensor.RandN(sessions[i], tensor.F32, 96, 96)
		}
		return func() {
			var made []*tensor.Tensor
			for range messages {
				for i, s := range sessions {
					made = append(made, x[i].Matmul(x[i]))
					check(s.Flush())
				}
			}
			for _, s := range sessions {
				check(s.Sync())
			}
			for _, y := range made {
				y.Free()
			}
		}
	}
	return r.both(k, 20, do(1), do(8))
}

func guideCompile(r *run, k *knob) (slower, fast side) {
	do := func(compile bool) func(n int) []float64 {
		conf := config.DataParallel(1)
		conf.Signals[0].Compile = &compile
		tr := newTrainer(r.dialed(r.start(1, 1), conf, nil), must(findTrial("qwen_t64")))
		return func(n int) []float64 {
			_, average := tr.steps(r.ctx, n, onTheWay)
			return []float64{average * 1000}
		}
	}
	return sampled(k.slower, "µs", 20, do(false)), sampled(k.fast, "µs", 20, do(true))
}

func guideReads(r *run, k *knob) (slower, fast side) {
	tr := newTrainer(r.through(1, 1).sess, must(findTrial("mlp_sgd")))
	steps := func(every int) func(n int) []float64 {
		return func(n int) []float64 {
			_, average := tr.steps(r.ctx, n, every)
			return []float64{average * 1000}
		}
	}
	return sampled(k.slower, "µs", 100, steps(1)), sampled(k.fast, "µs", 100, steps(10))
}

func guideShapes(r *run, k *knob) (slower, fast side) {
	const operations, most = 64, 4096 // more shapes than plans are kept
	s := r.through(1, 1).sess
	x := tensor.RandN(s, tensor.F32, most)
	do := func(n int) {
		var y *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { y = sc.Keep(chainOf(x.Narrow(0, 0, n), operations)) })
		check(s.Sync())
		y.Free()
	}
	next := 0
	return r.both(k, 100, func() { next++; do(1 + next%most) }, func() { do(most / 2) })
}

func guideFusion(r *run, k *knob) (slower, fast side) {
	do := func(o *cpu.Options) func() {
		s := r.inProcess(o).sess
		x := tensor.RandN(s, tensor.F32, 1<<20)
		return func() {
			var y *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) { y = sc.Keep(x.MulS(2).AddS(1).ReLU().Mul(x).MulS(0.5).Sub(x)) })
			check(s.Sync())
			y.Free()
		}
	}
	return r.both(k, 20, do(&cpu.Options{NoFuse: true}), do(nil))
}

func guideUploads(r *run, k *knob) (slower, fast side) {
	s := r.through(1, 1).sess
	v := make([]float32, r.work(16<<20))
	kept := tensor.From(s, v, len(v))
	read := func(x *tensor.Tensor) {
		y := x.Sum()
		must(y.Item())
		y.Free()
	}
	return r.both(k, 5, func() {
		x := tensor.From(s, v, len(v))
		read(x)
		x.Free()
	}, func() { read(kept) })
}

func guideViews(r *run, k *knob) (slower, fast side) {
	s := r.through(1, 1).sess
	x := tensor.RandN(s, tensor.F32, r.work(4<<20))
	result := func(read func(y *tensor.Tensor)) func() {
		return func() {
			y := x.MulS(2)
			read(y)
			y.Free()
		}
	}
	return r.both(k, 10, result(func(y *tensor.Tensor) { must(tensor.Data[float32](y)) }),
		result(func(y *tensor.Tensor) { check(tensor.View(y, func([]float32) error { return nil })) }))
}

func guideThreads(r *run, k *knob) (slower, fast side) {
	do := func(threads int) func() {
		s := r.through(1, threads).sess
		x := tensor.RandN(s, tensor.F32, 512, 512)
		return func() {
			y := x.Matmul(x)
			check(s.Sync())
			y.Free()
		}
	}
	return r.both(k, 20, do(1), do(2))
}

func guidePlacement(r *run, k *knob) (slower, fast side) {
	do := func(workers int) func(n int) []float64 {
		tr := newTrainer(r.through(workers, 1).sess, must(findTrial("qwen_t128")))
		return func(n int) []float64 {
			_, average := tr.steps(r.ctx, n, onTheWay)
			return []float64{average * 1000}
		}
	}
	return sampled(k.slower, "µs", 20, do(1)), sampled(k.fast, "µs", 20, do(2))
}

func guidePages(r *run, k *knob) (slower, fast side) {
	do := func(huge bool) func() {
		s := r.inProcess(&cpu.Options{Arena: shm.ArenaOptions{Segment: shm.Options{Huge: huge}}}).sess
		x := tensor.RandN(s, tensor.F32, r.work(16<<20))
		return func() {
			y := x.Add(x)
			check(s.Sync())
			y.Free()
		}
	}
	return r.both(k, 5, do(false), do(true))
}
