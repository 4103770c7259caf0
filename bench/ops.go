package bench

import (
	"os"
	"time"

	"github.com/ringside-go/ringside/tensor"
)

const (
	chainLength  = 1000 // operations between two sync points
	minOps       = 500_000
	maxOpOverUnx = 1.5
)

// runOps times chains of small operations whose results all stay alive, and single
// operations whose result is read.
func runOps(r *run) {
	rigs := []*rig{r.inProcess(nil), r.through(1, 1)}
	var chains, trips []side
	n := r.work(50)
	for _, g := range rigs {
		chains = append(chains, number("chain "+g.name, "ops/s", n*chainLength, func() float64 { return chainRate(r, g.sess, n) }))
		trips = append(trips, sampled("one op and its result "+g.name, "µs", 2000, func(n int) []float64 {
			return opTimes(r, g.sess, n)
		}))
	}
	socket := sampled("unix socket", "µs", 2000, func(n int) []float64 {
		a, b := socketPair()
		got := bytesTrips(r, role{Kind: "raw", Core: -1, Count: n}, []*os.File{a}, []*os.File{b})
		for i := range got {
			got[i] *= float64(time.Nanosecond) / float64(micros)
		}
		return got
	})
	r.measure(turns{rounds: r.rounds(7), warm: true}, chains[0], chains[1], trips[0], trips[1], socket)
	r.atLeast("ops_per_second", chains[1].median(), minOps)
	r.atMost("op_roundtrip_over_unix", ratio(trips[1].series, socket.series), maxOpOverUnx)
}

// chainRate records chains of additions of 4x4 tensors, keeps every result, waits, frees
// them, and returns operations a second, all that included.
func chainRate(r *run, s *tensor.Session, chains int) float64 {
	ones := make([]float32, 16)
	for i := range ones {
		ones[i] = 1
	}
	x := tensor.From(s, ones, 4, 4)
	defer x.Free()
	kept := make([]*tensor.Tensor, chainLength)
	start := time.Now()
	for range chains {
		check(r.ctx.Err())
		y := x
		for i := range kept {
			y = y.Add(x)
			kept[i] = y
		}
		check(s.Sync())
		for _, t := range kept {
			t.Free()
		}
	}
	return float64(chains*chainLength) / time.Since(start).Seconds()
}

// opTimes makes single operations and reads each result; what each took, in µs.
func opTimes(r *run, s *tensor.Session, n int) []float64 {
	x := tensor.Scalar(s, float32(1))
	defer x.Free()
	var y *tensor.Tensor
	return r.samples(n, micros, func() {
		y = x.Add(x)
		must(y.Item())
	}, func() { y.Free() })
}
