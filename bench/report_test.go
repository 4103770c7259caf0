package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestQuantile(t *testing.T) {
	x := []float64{4, 1, 3, 2}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 2.5}, {1, 4}, {1.0 / 3, 2}, {0.99, 3.97}} {
		if got := quantile(x, c.q); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("quantile(%v, %v) = %v, want %v", x, c.q, got, c.want)
		}
	}
	if !slices.Equal(x, []float64{4, 1, 3, 2}) {
		t.Errorf("quantile changed its argument to %v", x)
	}
	if got := quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing = %v, want NaN", got)
	}
}

// example is a report with two sides of three rounds and a bar of either kind.
func example() *Report {
	r := &Report{Bench: "walk"}
	a := &series{name: "uphill", unit: "ms"}
	b := &series{name: "downhill", unit: "ms", n: 10}
	for _, x := range []float64{3, 1, 2} {
		a.add(2*x, 4*x, 3*x)
		b.add(x)
	}
	r.measured(a)
	r.measured(b)
	r.atMost("uphill_over_downhill", ratio(a, b), 2.5)
	r.atLeast("downhill_ms", 2, 1)
	return r
}

func TestMeasured(t *testing.T) {
	r := example()
	want := []Measurement{
		{"walk", "uphill", "ms", 6, 3, 9, 6, 11.76, 3, 9},
		{"walk", "downhill", "ms", 2, 1, 3, 2, 2.98, 3, 10},
	}
	for i, m := range r.Measurements {
		m.P99 = math.Round(m.P99*100) / 100
		if m != want[i] {
			t.Errorf("measurement %d is %+v, want %+v", i, m, want[i])
		}
	}
	if b := r.Bars[0]; b.Value != 3 || b.OK {
		t.Errorf("bar %+v, want value 3, not ok: the ratio is that of the rounds", b)
	}
	if b := r.Bars[1]; !b.OK {
		t.Errorf("bar %+v, want ok", b)
	}
}

// TestJSON holds the keys to what programs read.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4:\n%s", len(lines), out.String())
	}
	keys := [][]string{
		{"bench", "case", "max", "median", "min", "n", "p50", "p99", "rounds", "unit"},
		{"bar", "bench", "limit", "ok", "value"},
	}
	for i, line := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		var got []string
		for k := range m {
			got = append(got, k)
		}
		slices.Sort(got)
		if !slices.Equal(got, keys[i/2]) {
			t.Errorf("line %d has the keys %v, want %v", i, got, keys[i/2])
		}
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"uphill", "MISSED uphill_over_downhill = 3 (at most 2.5)", "holds  downhill_ms = 2 (at least 1)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestFind(t *testing.T) {
	for _, s := range Scenarios() {
		if got, err := Find(s.Name); err != nil || got.Name != s.Name {
			t.Errorf("Find(%q) = %q, %v", s.Name, got.Name, err)
		}
	}
	_, err := Find("marathon")
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "marathon") || !strings.Contains(err.Error(), "step") {
		t.Errorf("Find of nothing: %v, want ErrUnknown that names it and lists all", err)
	}
}
