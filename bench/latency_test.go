package bench

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
)

// planeBars are the figures with a limit of the scenarios that look at where the cores
// are. Those beside C and Open MPI are there when a compiler and that are.
var planeBars = map[string][]string{
	"latency":      {"latency_p50_over_c_ring", "latency_p99_over_c_ring"},
	"latency-idle": {"idle_p50_over_futex"},
	"latency-hops": {"hops_p50_unix_over_ring", "hops_p99_unix_over_ring"},
	"throughput":   {"messages_over_c_ring", "messages_over_openmpi", "idle_cpu_percent"},
	"reduce":       {"reduce_over_fetch_2w", "reduce_over_fetch_4w", "reduce_sharded_over_unsharded", "reduce_dispatcher_tensor_bytes"},
}

// TestPeersOutsideTheTree checks that a run outside the source tree says where the heavy
// peers can be built.
func TestPeersOutsideTheTree(t *testing.T) {
	t.Chdir(t.TempDir())
	var said strings.Builder
	r := &run{Options: &Options{Logger: slog.New(slog.NewTextHandler(&said, nil))}}
	if tool := heavyPeers(r, "netpoll"); tool != nil || !strings.Contains(said.String(), "run this in a clone of ringside") {
		t.Errorf("%v, %s", tool, &said)
	}
}

// TestPlaneScenarios runs them with little work: every process plays its part to the end,
// and what they measure is made of numbers.
func TestPlaneScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("builds C programs and starts a hundred processes")
	}
	for name, bars := range planeBars {
		t.Run(name, func(t *testing.T) {
			r, err := runScenario(t, name, &Options{Rounds: 1, Scale: 50, Self: testSelf(t)})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Measurements) < 3 {
				t.Errorf("%d measurements", len(r.Measurements))
			}
			for _, m := range r.Measurements {
				for _, x := range []float64{m.Median, m.Min, m.Max, m.P50, m.P99} {
					if !(x >= 0) || math.IsInf(x, 0) {
						t.Errorf("%s: %v in %+v", m.Case, x, m)
					}
				}
			}
			for _, b := range r.Bars {
				if !slices.Contains(bars, b.Bar) || !(b.Value >= 0) || !(b.Limit > 0 || b.Limit == 0 && b.OK) {
					t.Errorf("bar %+v, expected one of %v", b, bars)
				}
			}
		})
	}
}

// TestPlayFails: what goes wrong in a part is an error, with the part's name.
func TestPlayFails(t *testing.T) {
	o := &Options{Self: testSelf(t)}
	for _, r := range []role{
		{Part: "no such part", Measures: true},
		{Part: "ping", Kind: "conn", Addr: "/nowhere/at/all", Count: 1, Core: -1, Measures: true},
	} {
		if err := try(func() { play(t.Context(), o, r) }); err == nil || !strings.Contains(err.Error(), r.Part) {
			t.Errorf("%s: %v, expected an error with its name", r.Part, err)
		}
	}
	if err := try(func() { play(t.Context(), &Options{}, role{Part: "ping"}) }); err == nil {
		t.Error("a play without Self: expected an error")
	}
}
