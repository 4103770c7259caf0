package bench

import (
	"errors"
	"math"
	"testing"
)

// clusterBars are the figures with a limit of the scenarios that run a cluster.
var clusterBars = map[string][]string{
	"step":     {"step_cluster_over_inprocess", "step_cluster_ms", "step_t128_cluster_over_inprocess", "plan_hits", "program_hits", "peak_over_lower_bound", "faults_per_step"},
	"ops":      {"ops_per_second", "op_roundtrip_over_unix"},
	"eager":    {"eager_256_cluster_over_inprocess", "eager_4_cluster_over_inprocess"},
	"transfer": {"upload_over_memcpy", "view_over_copy"},
	"trace":    {"trace_cost"},
	"fairness": {"fairness_p99_ratio"},
}

// TestScenarios runs them with little work: what they measure is complete and made of
// numbers.
func TestScenarios(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for name, want := range clusterBars {
		t.Run(name, func(t *testing.T) {
			r, err := runScenario(t, name, &Options{Rounds: 2, Scale: 50, Self: testSelf(t)})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range r.Measurements {
				rounds := 2
				if m.Unit == "programs" || m.Unit == "events" || m.Unit == "bytes" {
					rounds = 1 // what is kept at the end
				}
				if m.Bench != name || m.Case == "" || m.Unit == "" || m.Rounds != rounds || m.N < rounds {
					t.Errorf("incomplete: %+v", m)
				}
				for _, x := range []float64{m.Median, m.Min, m.Max, m.P50, m.P99} {
					if !(x > 0 || x == 0 && m.Unit == "faults") || math.IsInf(x, 0) {
						t.Errorf("%s: %v in %+v", m.Case, x, m)
					}
				}
			}
			if len(r.Bars) != len(want) {
				t.Fatalf("bars %+v, want %v", r.Bars, want)
			}
			for i, b := range r.Bars {
				if faults := b.Bar == "faults_per_step"; b.Bench != name || b.Bar != want[i] || !faults && !(b.Value > 0 && b.Limit > 0) {
					t.Errorf("bar %+v, want %s", b, want[i])
				}
			}
		})
	}
}

// runScenario runs the scenario of that name.
func runScenario(t *testing.T, name string, o *Options) (*Report, error) {
	t.Helper()
	s, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Run(t.Context(), o)
}

// BenchmarkScenarios runs them in full: go test -bench . ./bench
func BenchmarkScenarios(b *testing.B) {
	b.Setenv("XDG_RUNTIME_DIR", b.TempDir())
	for _, s := range Scenarios() {
		b.Run(s.Name, func(b *testing.B) {
			for b.Loop() {
				r, err := s.Run(b.Context(), &Options{Self: testSelf(b)})
				if errors.Is(err, ErrNoBackend) {
					b.Skip(err)
				}
				if err != nil {
					b.Fatal(err)
				}
				for _, x := range r.Bars {
					b.ReportMetric(x.Value, x.Bar)
				}
			}
		})
	}
}
