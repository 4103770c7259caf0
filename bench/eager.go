package bench

import (
	"context"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

const (
	// maxEager is how much longer an operation that is waited for may take through a
	// cluster.
	maxEager = 3
	// smallSide is where operations begin that are more than a call: below, in-process
	// takes 2 µs for all of it, less than any way to another process and back.
	smallSide = 64
)

// eagerOp is one operation as an interactive user runs it: recorded, sent, run and waited
// for by itself.
type eagerOp struct {
	name  string
	reads bool // its result is read, otherwise it is only waited for
	do    func(x, y *tensor.Tensor) *tensor.Tensor
	side  int // of x and y
}

func eagerOps() []eagerOp {
	add := func(x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y) }
	return []eagerOp{
		{"add 4x4", false, add, 4},
		{"sum 4x4, read", true, func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Sum() }, 4},
		{"add 256x256", false, add, 256},
		{"softmax 256x256", false, func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Softmax(-1) }, 256},
		{"matmul 256x256", false, func(x, y *tensor.Tensor) *tensor.Tensor { return x.Matmul(y) }, 256},
		{"add 256x256, read", true, add, 256},
	}
}

// runEager times operations one by one, each waited for, through a cluster beside
// in-process.
func runEager(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "eager"}
	near, far, err := nearAndFar(ctx, o)
	if err != nil {
		return nil, err
	}
	defer near.close()
	defer far.close()
	type sides struct{ near, far *series }
	all := make([]sides, len(eagerOps()))
	for k, op := range eagerOps() {
		all[k] = sides{&series{name: op.name + " in-process", unit: "µs"}, &series{name: op.name + " cluster", unit: "µs"}}
	}
	for round := range o.rounds(7) + 1 { // the first is not counted
		for k, op := range eagerOps() {
			for _, side := range []struct {
				g *rig
				s *series
			}{{near, all[k].near}, {far, all[k].far}} {
				each, err := eagerTimes(ctx, side.g.sess, op, o.work(1000))
				if err != nil {
					return nil, err
				}
				if round > 0 {
					side.s.add(each...)
				}
			}
		}
	}
	worst := map[bool]float64{} // of the small ones, and of the others
	for k, op := range eagerOps() {
		r.measured(all[k].near)
		r.measured(all[k].far)
		small := op.side < smallSide
		worst[small] = max(worst[small], ratio(all[k].far, all[k].near))
	}
	r.atMost("eager_256_cluster_over_inprocess", worst[false], maxEager)
	r.atMost("eager_4_cluster_over_inprocess", worst[true], maxEager)
	return r, nil
}

// eagerTimes does op n times and waits for each; what each took, in µs.
func eagerTimes(ctx context.Context, s *tensor.Session, op eagerOp, n int) ([]float64, error) {
	x := tensor.RandN(s, tensor.F32, op.side, op.side)
	y := tensor.RandN(s, tensor.F32, op.side, op.side)
	defer x.Free()
	defer y.Free()
	if err := s.Sync(); err != nil {
		return nil, err
	}
	out := make([]float64, n)
	for i := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		z := op.do(x, y)
		var err error
		if op.reads {
			err = tensor.View(z, func([]float32) error { return nil })
		} else {
			err = s.Sync()
		}
		if err != nil {
			return nil, err
		}
		out[i] = micros(time.Since(start))
		z.Free()
	}
	return out, nil
}
