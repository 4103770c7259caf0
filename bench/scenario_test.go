package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
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
	sides := &leftOut{}
	o.Logger = slog.New(sides)
	r, err := s.Run(t.Context(), o)
	sides.check(t, os.Getenv)
	return r, err
}

// leftOut is a handler that notes why a scenario goes without some of its sides.
type leftOut struct{ why []error }

func (l *leftOut) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *leftOut) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *leftOut) WithGroup(string) slog.Handler { return l }

func (l *leftOut) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && r.Message == withoutSide {
			l.why = append(l.why, err)
		}
		return true
	})
	return nil
}

// check fails the test if the environment promises what a side needs.
func (l *leftOut) check(t testing.TB, getenv func(string) string) {
	t.Helper()
	for _, err := range l.why {
		if p := promised(err); p != "" {
			p.Logf(t, getenv, "%v", err)
		} else {
			t.Log(err)
		}
	}
}

// promised returns the promise of what a side lacks, "" if that is a kind of processor or
// a way of Open MPI's.
func promised(err error) testneeds.Promise {
	switch {
	case errors.Is(err, errNoFloor):
		return testneeds.GCC
	case errors.Is(err, errNoMPI):
		return testneeds.MPI
	case errors.Is(err, errNoGloo):
		return testneeds.Torch
	case errors.Is(err, errNoPeers):
		return testneeds.Peers
	}
	return ""
}

// TestLeftOut: what a scenario goes without is noted, and is promised by its variable.
func TestLeftOut(t *testing.T) {
	for err, want := range map[error]testneeds.Promise{
		errNoFloor: testneeds.GCC, errNoMPI: testneeds.MPI, errNoGloo: testneeds.Torch, errNoPeers: testneeds.Peers, errNoAVX512: "",
	} {
		sides := &leftOut{}
		o := &Options{Logger: slog.New(sides).With("bench", "x")}
		o.progress("case", 1, "err", err)
		o.without("a side", fmt.Errorf("%w: no such file", err))
		if len(sides.why) != 1 || promised(sides.why[0]) != want {
			t.Errorf("%v: noted %v, expected one of promise %q", err, sides.why, want)
		}
	}
}

// BenchmarkScenarios runs them in full: go test -bench . ./bench
func BenchmarkScenarios(b *testing.B) {
	b.Setenv("XDG_RUNTIME_DIR", b.TempDir())
	for _, s := range Scenarios() {
		b.Run(s.Name, func(b *testing.B) {
			for b.Loop() {
				r, err := s.Run(b.Context(), &Options{Self: testSelf(b)})
				if errors.Is(err, ErrNoBackend) {
					testneeds.Python.Skipf(b, os.Getenv, "%v", err)
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
