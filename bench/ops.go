package bench

import (
	"context"
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
func runOps(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "ops"}
	near, far, err := nearAndFar(ctx, o)
	if err != nil {
		return nil, err
	}
	defer near.close()
	defer far.close()
	peer, err := startEcho(o)
	if err != nil {
		return nil, err
	}
	defer peer.close()

	chains, trips := o.work(50), o.work(2000)
	rates := map[*rig]*series{}
	times := map[*rig]*series{}
	for _, g := range []*rig{near, far} {
		rates[g] = &series{name: "chain " + g.name, unit: "ops/s", n: chains * chainLength}
		times[g] = &series{name: "one op and its result " + g.name, unit: "µs"}
	}
	unixTimes := &series{name: "unix socket", unit: "µs"}
	for round := range o.rounds(7) + 1 { // the first is not counted
		for _, g := range []*rig{near, far} {
			rate, err := chainRate(ctx, g.sess, chains)
			if err != nil {
				return nil, err
			}
			each, err := opTimes(ctx, g.sess, trips)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				rates[g].add(rate)
				times[g].add(each...)
			}
		}
		each, err := peer.roundTrips(ctx, trips)
		if err != nil {
			return nil, err
		}
		if round > 0 {
			unixTimes.add(each...)
		}
	}
	for _, g := range []*rig{near, far} {
		r.measured(rates[g])
	}
	for _, g := range []*rig{near, far} {
		r.measured(times[g])
	}
	r.measured(unixTimes)
	r.atLeast("ops_per_second", quantile(rates[far].medians(), 0.5), minOps)
	r.atMost("op_roundtrip_over_unix", ratio(times[far], unixTimes), maxOpOverUnx)
	return r, nil
}

// chainRate records chains of additions of 4x4 tensors, keeps every result, waits, frees
// them, and returns operations a second, all that included.
func chainRate(ctx context.Context, s *tensor.Session, chains int) (float64, error) {
	ones := make([]float32, 16)
	for i := range ones {
		ones[i] = 1
	}
	x := tensor.From(s, ones, 4, 4)
	defer x.Free()
	kept := make([]*tensor.Tensor, chainLength)
	start := time.Now()
	for range chains {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		y := x
		for i := range kept {
			y = y.Add(x)
			kept[i] = y
		}
		if err := s.Sync(); err != nil {
			return 0, err
		}
		for _, t := range kept {
			t.Free()
		}
	}
	return float64(chains*chainLength) / time.Since(start).Seconds(), nil
}

// opTimes makes single operations and reads each result; what each took, in µs.
func opTimes(ctx context.Context, s *tensor.Session, n int) ([]float64, error) {
	x := tensor.Scalar(s, float32(1))
	defer x.Free()
	out := make([]float64, n)
	for i := range out {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		y := x.Add(x)
		_, err := y.Item()
		if err != nil {
			return nil, err
		}
		out[i] = micros(time.Since(start))
		y.Free()
	}
	return out, nil
}
