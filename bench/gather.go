package bench

import (
	"errors"
	"fmt"
	"slices"
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

// gatherParts are measured one after the other, or one alone.
var gatherParts = []struct {
	name string
	run  func(r *run)
}{
	{"latency", gatherLatencies},
	{"bandwidth", gatherBandwidth},
	{"update", gatherUpdates},
	{"format", gatherFormat},
	{"overlap", gatherOverlap},
	{"json", gatherJSON},
}

// runGather times gathers of ranks in this process beside one rank, updates of processes
// of their own, the format beside the known one, overlap beside comparing all indices,
// and two packages for JSON beside each other.
func runGather(r *run) {
	for _, part := range gatherParts {
		if r.Only == "" || r.Only == part.name {
			within(part.name, func() { part.run(r) })
		}
	}
}

// gatherCall is a gather of peers 1 to peers on some ranks.
type gatherCall struct {
	manifest     *codec.Manifest
	ranks, peers int
	from         func(rank int) store.Store // nil: codectest.Peers
	dir          string                     // for spools

	// then is called on rank 0, or is nil.
	then func(g *gather.Gatherer, r *gather.Result)
}

// seconds gathers and returns what the slowest rank took.
func (c *gatherCall) seconds(r *run) float64 {
	groups := []*collective.Group{nil}
	if c.ranks > 1 {
		groups = must(collective.Local(c.ranks, &collective.Options{Linger: -1}))
		defer func() {
			for _, g := range groups {
				g.Close()
			}
		}()
	}
	took, errs := make([]float64, c.ranks), make([]error, c.ranks)
	var wg sync.WaitGroup
	for rank, group := range groups {
		wg.Go(func() { errs[rank] = try(func() { took[rank] = c.rank(r, rank, group) }) })
	}
	wg.Wait()
	check(errors.Join(errs...))
	return slices.Max(took)
}

// rank is one rank's part of the call.
func (c *gatherCall) rank(r *run, rank int, group *collective.Group) float64 {
	var s store.Store = &codectest.Peers{M: c.manifest, Window: gatherWindow}
	if c.from != nil {
		s = c.from(rank)
	}
	g := must(gather.New(group, &gather.Options{Manifest: c.manifest, Spool: c.dir, Fetch: store.FetchOptions{Concurrency: gatherConcurrency, Attempts: 1},
		Source: func(_, uid uint64) (store.Store, string) { return s, fmt.Sprint(uid) }}))
	plan := gather.Plan{Window: gatherWindow, Timeout: time.Minute, Manifest: c.manifest.Digest()}
	for uid := range uint64(c.peers) {
		plan.Intended = append(plan.Intended, uid+1)
	}
	res := must(g.Gather(r.ctx, &plan))
	defer res.Close()
	if len(res.UIDs) != c.peers {
		check(fmt.Errorf("bench: gather on %d ranks: %d of %d peers are right: %v", c.ranks, len(res.UIDs), c.peers, res.Details))
	}
	if c.then != nil && rank == 0 {
		c.then(g, res)
	}
	return res.Time
}

// gatherSide is a gather as a side, which gives seconds.
func gatherSide(r *run, name string, c gatherCall) side {
	return number(name, "s", 1, func() float64 { return c.seconds(r) })
}

// gatherManifest is of one matrix in some format.
func gatherManifest(c codec.Config, rows, cols int64) *codec.Manifest {
	return must(codec.NewManifest(c, []codec.Tensor{{Name: "w", Shape: []int64{rows, cols}, DType: "F32"}}))
}

// gatherLatencies has every object take 50 ms, however small.
func gatherLatencies(r *run) {
	m := gatherManifest(codec.KnownConfig(), 128, 128)
	s := &delayed{Store: newKept(m, gatherLatencyPeers), latency: gatherLatency}
	ranks := []int{1, 2, 4, 8}
	var sides []side
	dir := r.tempDir()
	for _, n := range ranks {
		sides = append(sides, gatherSide(r, fmt.Sprintf("64 peers at 50 ms, %d ranks", n),
			gatherCall{manifest: m, ranks: n, peers: gatherLatencyPeers, from: func(int) store.Store { return s }, dir: dir}))
	}
	r.measure(turns{rounds: r.rounds(3)}, sides...)
	for i, n := range ranks[1:] {
		r.atLeast(fmt.Sprint("gather_speedup_", n), ratio(sides[0].series, sides[i+1].series), minGatherSpeedup[n])
	}
}

// gatherBandwidth has ranks take 50 MB/s each, and then of a line that has 100 in all,
// which two ranks fill.
func gatherBandwidth(r *run) {
	m := gatherManifest(codec.KnownConfig(), 4096, 6400)
	peers := r.work(gatherBandwidthPeers)
	all, dir := newKept(m, peers), r.tempDir()
	line := &rate{perSecond: 100e6}
	through := func(name string, ranks int, limits ...*rate) side {
		return gatherSide(r, fmt.Sprintf(name, ranks), gatherCall{manifest: m, ranks: ranks, peers: peers, dir: dir, from: func(int) store.Store {
			return &delayed{Store: all, limits: append(limits[:len(limits):len(limits)], &rate{perSecond: 50e6})}
		}})
	}
	var own, shared []side
	for _, n := range []int{1, 2, 4} {
		own = append(own, through(fmt.Sprint(peers, " peers of 1 MiB at 50 MB/s a rank, %d ranks"), n))
		shared = append(shared, through("the same at 100 MB/s in all, %d ranks", 2*n, line))
	}
	r.measure(turns{rounds: r.rounds(3)}, append(own, shared...)...)
	plateau := 0.0
	for i, n := range []int{2, 4} {
		r.atLeast(fmt.Sprint("gather_bandwidth_speedup_", n), ratio(own[0].series, own[i+1].series), minGatherSpeedup[n])
		x := ratio(shared[i+1].series, shared[0].series)
		plateau = max(plateau, x, 1/x)
	}
	r.atMost("gather_plateau", plateau, maxGatherPlateau)
}

// gatherUpdates runs outer updates in processes of their own.
func gatherUpdates(r *run) {
	over, spread, speed := 0.0, 0.0, 0.0
	for _, budget := range []int{4, 16, 64} {
		var grew []float64
		for _, peers := range []int{8, 64, 256} {
			what := fmt.Sprintf("update, %d peers, budget %d MiB", peers, budget)
			x := play(r.ctx, r.Options, role{Part: "gather-update", Clients: max(r.work(peers), 2), Size: budget << 20, Core: -1, Measures: true})
			r.single(what+", growth", "bytes", x[0])
			r.single(what, "values/s", x[1])
			grew = append(grew, x[0])
			over = max(over, x[0]-float64(budget<<20))
			if peers == 256 {
				speed = max(speed, x[1])
			}
		}
		spread = max(spread, slices.Max(grew)-slices.Min(grew))
	}
	r.atMost("gather_peak_over_budget_mib", over/(1<<20), maxGatherOver/(1<<20))
	r.atMost("gather_peak_spread_mib", spread/(1<<20), maxGatherSpread/(1<<20))
	r.atLeast("gather_values_per_second", speed, minGatherValues)
}

// gatherFormat weighs a payload of the default format.
func gatherFormat(r *run) {
	m := gatherManifest(codec.DefaultConfig(), 2048, 2048)
	p := codectest.Payload(m, gatherWindow, 1, nil)
	r.atMost("gather_bits_per_value", float64(p.Size())*8/float64(m.Values()), maxGatherBits)
	r.atLeast("gather_ratio", 4*float64(m.Elements())/float64(p.Size()), minGatherRatio)
}

// gatherOverlap compares 64 peers with each other, beside comparing all of their indices.
func gatherOverlap(r *run) {
	m := gatherManifest(codec.KnownConfig(), 1024, 1024)
	call := gatherCall{manifest: m, ranks: 1, peers: 64, dir: r.tempDir()}
	call.then = func(g *gather.Gatherer, res *gather.Result) {
		sets := indexSets(res, m)
		var rep *overlap.Report
		var common [][]int64
		ours := number("overlap of 64 peers, 256 chunks", "s", 1, func() float64 {
			begin := time.Now()
			rep = must(overlap.Check(r.ctx, g.Ranks, res, m, nil))
			return time.Since(begin).Seconds()
		})
		pairs := number("comparing all pairs of indices", "s", 1, func() float64 {
			begin := time.Now()
			common = comparePairs(sets)
			return time.Since(begin).Seconds()
		})
		r.measure(turns{rounds: r.rounds(5)}, ours, pairs)
		for i := range common {
			for j := range i {
				if common[i][j] != rep.Common[i][j] {
					check(fmt.Errorf("bench: overlap of peers %d and %d is %d, comparing says %d", i, j, rep.Common[i][j], common[i][j]))
				}
			}
		}
		r.atLeast("gather_overlap_over_pairs", ratio(pairs.series, ours.series), minOverlapOverPairs)
	}
	call.seconds(r)
}
