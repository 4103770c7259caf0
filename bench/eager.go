package bench

import "github.com/ringside-go/ringside/tensor"

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
func runEager(r *run) {
	rigs := []*rig{r.inProcess(nil), r.through(1, 1)}
	var sides []side // of each operation both
	for _, op := range eagerOps() {
		for _, g := range rigs {
			sides = append(sides, sampled(op.name+" "+g.name, "µs", 1000, func(n int) []float64 {
				return eagerTimes(r, g.sess, op, n)
			}))
		}
	}
	r.measure(turns{rounds: r.rounds(7), warm: true}, sides...)
	worst := map[bool]float64{} // of the small ones, and of the others
	for i, op := range eagerOps() {
		small := op.side < smallSide
		worst[small] = max(worst[small], ratio(sides[2*i+1].series, sides[2*i].series))
	}
	r.atMost("eager_256_cluster_over_inprocess", worst[false], maxEager)
	r.atMost("eager_4_cluster_over_inprocess", worst[true], maxEager)
}

// eagerTimes does op n times and waits for each; what each took, in µs.
func eagerTimes(r *run, s *tensor.Session, op eagerOp, n int) []float64 {
	x := tensor.RandN(s, tensor.F32, op.side, op.side)
	y := tensor.RandN(s, tensor.F32, op.side, op.side)
	defer x.Free()
	defer y.Free()
	check(s.Sync())
	var z *tensor.Tensor
	return r.samples(n, micros, func() {
		if z = op.do(x, y); op.reads {
			check(tensor.View(z, func([]float32) error { return nil }))
		} else {
			check(s.Sync())
		}
	}, func() { z.Free() })
}
