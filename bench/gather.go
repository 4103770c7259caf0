package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/overlap"
	"github.com/ringside-go/ringside/gather/store"
)

// The limits of gather.
const (
	maxGatherOver        = 12 << 20 // bytes of an update above its budget
	maxGatherSpread      = 2 << 20  // between 8 and 256 peers
	minGatherValues      = 150e6    // values a second, on one core
	maxGatherBits        = 9.8
	minGatherRatio       = 200
	minOverlapOverPairs  = 20
	maxGatherPlateau     = 1.15
	gatherLatency        = 50 * time.Millisecond
	gatherConcurrency    = 4 // of a rank: more would hide the latency from one rank
	gatherLatencyPeers   = 64
	gatherBandwidthPeers = 32
	gatherWindow         = 1
)

// minGatherSpeedup is by ranks.
var minGatherSpeedup = map[int]float64{2: 1.8, 4: 3.4, 8: 6}

// runGather times gathers of ranks in this process beside one rank, updates of processes
// of their own, the format beside the known one, and overlap beside comparing all
// indices.
func runGather(ctx context.Context, o *Options, r *Report) error {
	for _, part := range []func(context.Context, *Options, *Report) error{gatherLatencies, gatherBandwidth, gatherUpdates, gatherFormat, gatherOverlap} {
		if err := part(ctx, o, r); err != nil {
			return err
		}
	}
	return nil
}

// gatherOn gathers peers 1 to n on so many ranks and returns the seconds of the slowest.
// then is called on rank 0, or is nil.
func gatherOn(ctx context.Context, ranks, n int, m *codec.Manifest, from func(rank int) store.Store, then func(g *gather.Gatherer, r *gather.Result) error) (float64, error) {
	groups := []*collective.Group{nil}
	if ranks > 1 {
		var err error
		if groups, err = collective.Local(ranks, &collective.Options{Linger: -1}); err != nil {
			return 0, err
		}
		defer func() {
			for _, g := range groups {
				g.Close()
			}
		}()
	}
	dir, err := os.MkdirTemp("", "ringside-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	plan := gather.Plan{Window: gatherWindow, Timeout: time.Minute, Manifest: m.Digest()}
	for uid := range n {
		plan.Intended = append(plan.Intended, uint64(uid+1))
	}
	took, errs := make([]float64, ranks), make([]error, ranks)
	var wg sync.WaitGroup
	for rank, group := range groups {
		wg.Go(func() {
			errs[rank] = func() error {
				s := from(rank)
				g, err := gather.New(group, &gather.Options{Manifest: m, Spool: dir, Fetch: store.FetchOptions{Concurrency: gatherConcurrency, Attempts: 1},
					Source: func(_, uid uint64) (store.Store, string) { return s, fmt.Sprint(uid) }})
				if err != nil {
					return err
				}
				mine := plan
				r, err := g.Gather(ctx, &mine)
				if err != nil {
					return err
				}
				defer r.Close()
				took[rank] = r.Time
				if len(r.UIDs) != n {
					return fmt.Errorf("bench: gather on %d ranks: %d of %d peers are right: %v", ranks, len(r.UIDs), n, r.Details)
				}
				if then != nil && rank == 0 {
					return then(g, r)
				}
				return nil
			}()
		})
	}
	wg.Wait()
	slowest := 0.0
	for rank, err := range errs {
		if err != nil {
			return 0, err
		}
		slowest = max(slowest, took[rank])
	}
	return slowest, nil
}

// gatherLatencies has every object take 50 ms, however small.
func gatherLatencies(ctx context.Context, o *Options, r *Report) error {
	m, err := codec.NewManifest(codec.KnownConfig(), []codec.Tensor{{Name: "w", Shape: []int64{128, 128}, DType: "F32"}})
	if err != nil {
		return err
	}
	peers := &kept{Peers: codectest.Peers{M: m, Window: gatherWindow}}
	peers.make(gatherLatencyPeers)
	s := &delayed{Store: peers, latency: gatherLatency}
	sides := map[int]*series{}
	order := []int{1, 2, 4, 8}
	for _, n := range order {
		sides[n] = &series{name: fmt.Sprintf("64 peers at 50 ms, %d ranks", n), unit: "s"}
	}
	for range o.rounds(3) {
		for _, n := range order {
			x, err := gatherOn(ctx, n, gatherLatencyPeers, m, func(int) store.Store { return s }, nil)
			if err != nil {
				return err
			}
			sides[n].add(x)
		}
	}
	for _, n := range order {
		r.measured(sides[n])
		if n > 1 {
			r.atLeast(fmt.Sprint("gather_speedup_", n), ratio(sides[1], sides[n]), minGatherSpeedup[n])
		}
	}
	return nil
}

// gatherBandwidth has ranks take 50 MB/s each, and then of a line that has 100 in all,
// which two ranks fill.
func gatherBandwidth(ctx context.Context, o *Options, r *Report) error {
	m, err := codec.NewManifest(codec.KnownConfig(), []codec.Tensor{{Name: "w", Shape: []int64{4096, 6400}, DType: "F32"}})
	if err != nil {
		return err
	}
	peers := &kept{Peers: codectest.Peers{M: m, Window: gatherWindow}}
	peers.make(gatherBandwidthPeers / max(o.Scale, 1))
	own, shared := map[int]*series{}, map[int]*series{}
	for _, n := range []int{1, 2, 4, 8} {
		own[n] = &series{name: fmt.Sprintf("%d peers of 4 MiB at 50 MB/s a rank, %d ranks", len(peers.all), n), unit: "s"}
		shared[n] = &series{name: fmt.Sprintf("the same at 100 MB/s in all, %d ranks", n), unit: "s"}
	}
	add := func(s *series, n int, limits ...*rate) error {
		x, err := gatherOn(ctx, n, len(peers.all), m, func(int) store.Store {
			return &delayed{Store: peers, limits: append(limits[:len(limits):len(limits)], &rate{perSecond: 50e6})}
		}, nil)
		s.add(x)
		return err
	}
	for range o.rounds(3) {
		for _, n := range []int{1, 2, 4} {
			if err := add(own[n], n); err != nil {
				return err
			}
		}
		for _, n := range []int{2, 4, 8} {
			if err := add(shared[n], n, &rate{perSecond: 100e6}); err != nil {
				return err
			}
		}
	}
	for _, n := range []int{1, 2, 4} {
		r.measured(own[n])
		if n > 1 {
			r.atLeast(fmt.Sprint("gather_bandwidth_speedup_", n), ratio(own[1], own[n]), minGatherSpeedup[n])
		}
	}
	plateau := 0.0
	for _, n := range []int{2, 4, 8} {
		r.measured(shared[n])
		if n > 2 {
			x := ratio(shared[n], shared[2])
			plateau = max(plateau, x, 1/x)
		}
	}
	r.atMost("gather_plateau", plateau, maxGatherPlateau)
	return nil
}

// gatherUpdates runs outer updates in processes of their own.
func gatherUpdates(ctx context.Context, o *Options, r *Report) error {
	over, spread, speed := 0.0, 0.0, 0.0
	for _, budget := range []int{4, 16, 64} {
		least, most := 0.0, 0.0
		for i, peers := range []int{8, 64, 256} {
			x := play(ctx, o, role{Part: "gather-update", Clients: max(peers/max(o.Scale, 1), 2), Size: budget << 20, Core: -1, Measures: true})
			peak := x[0]
			r.measured(&series{name: fmt.Sprintf("peak of an update, %d peers, budget %d MiB", peers, budget), unit: "bytes", rounds: [][]float64{{peak}}})
			r.measured(&series{name: fmt.Sprintf("update, %d peers, budget %d MiB", peers, budget), unit: "values/s", rounds: [][]float64{{x[1]}}})
			if i == 0 {
				least = peak
			}
			least, most = min(least, peak), max(most, peak)
			over = max(over, peak-float64(budget<<20))
			if peers == 256 {
				speed = max(speed, x[1])
			}
		}
		spread = max(spread, most-least)
	}
	r.atMost("gather_peak_over_budget_mib", over/(1<<20), maxGatherOver/(1<<20))
	r.atMost("gather_peak_spread_mib", spread/(1<<20), maxGatherSpread/(1<<20))
	r.atLeast("gather_values_per_second", speed, minGatherValues)
	return nil
}

// gatherFormat weighs a payload of the default format.
func gatherFormat(_ context.Context, _ *Options, r *Report) error {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{2048, 2048}, DType: "F32"}})
	if err != nil {
		return err
	}
	p := codectest.Payload(m, gatherWindow, 1, nil)
	r.atMost("gather_bits_per_value", float64(p.Size())*8/float64(m.Values()), maxGatherBits)
	r.atLeast("gather_ratio", 4*float64(m.Elements())/float64(p.Size()), minGatherRatio)
	return nil
}

// gatherOverlap compares 64 peers with each other, beside comparing all of their indices.
func gatherOverlap(ctx context.Context, o *Options, r *Report) error {
	const peers = 64
	m, err := codec.NewManifest(codec.KnownConfig(), []codec.Tensor{{Name: "w", Shape: []int64{1024, 1024}, DType: "F32"}})
	if err != nil {
		return err
	}
	ours := &series{name: "overlap of 64 peers, 256 chunks", unit: "s"}
	pairs := &series{name: "comparing all pairs of indices", unit: "s"}
	_, err = gatherOn(ctx, 1, peers, m, func(int) store.Store { return &codectest.Peers{M: m, Window: gatherWindow} }, func(g *gather.Gatherer, res *gather.Result) error {
		sets, err := indexSets(res, m)
		if err != nil {
			return err
		}
		for range o.rounds(5) {
			begin := time.Now()
			rep, err := overlap.Check(ctx, g.Ranks, res, m, nil)
			if err != nil {
				return err
			}
			ours.add(time.Since(begin).Seconds())
			begin = time.Now()
			common := comparePairs(sets)
			pairs.add(time.Since(begin).Seconds())
			for i := range common {
				for j := range i {
					if common[i][j] != rep.Common[i][j] {
						return fmt.Errorf("bench: overlap of peers %d and %d is %d, comparing says %d", i, j, rep.Common[i][j], common[i][j])
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.measured(ours)
	r.measured(pairs)
	r.atLeast("gather_overlap_over_pairs", ratio(pairs, ours), minOverlapOverPairs)
	return nil
}
