package agg

import (
	"errors"
	"math"
	"testing"
)

func TestFind(t *testing.T) {
	for _, name := range append(Names(), "", "trimmed:0.1", "multi-krum:0.4") {
		r, err := Find(name)
		if err != nil || r.Vote != nil && r.Factors != nil {
			t.Errorf("%q: %+v, %v", name, r, err)
		}
	}
	for _, name := range []string{"best", "trimmed:", "trimmed:0.5", "krum:-1", "median:x"} {
		if _, err := Find(name); !errors.Is(err, ErrRule) {
			t.Errorf("%q: %v, expected ErrRule", name, err)
		}
	}
}

func TestVotes(t *testing.T) {
	for _, c := range []struct {
		values          []float32
		median, trimmed float32
	}{
		{[]float32{1, 2, 30}, 2, 2},
		{[]float32{1, 2, 4, 30}, 3, 3},
		{[]float32{-9, 1, 2, 3, 4, 5, 6, 90}, 3.5, 3.5},
		{[]float32{1, 90}, 0, 0},
		{nil, 0, 0},
	} {
		if m, s := median(c.values), trimmed(c.values, 0.25); m != c.median || s != c.trimmed {
			t.Errorf("%v: median %v, trimmed %v; expected %v, %v", c.values, m, s, c.median, c.trimmed)
		}
	}
}

// grammar is the inner products of points on a line.
func grammar(x ...float64) [][]float64 {
	g := make([][]float64, len(x))
	for i := range x {
		for j := range x {
			g[i] = append(g[i], x[i]*x[j])
		}
	}
	return g
}

// TestDistances: the far point of a line counts for little or nothing.
func TestDistances(t *testing.T) {
	x := []float64{1, 1.1, 0.9, 1.05, 100}
	at := func(f []float64, mean bool) float64 {
		var s, n float64
		for i, a := range f {
			s += a * x[i]
			n += a
		}
		if mean {
			return s / n
		}
		return s
	}
	for _, c := range []struct {
		name string
		mean bool
		tol  float64
	}{{"krum", true, 0.11}, {"multi-krum", true, 0.11}, {"geometric-median", false, 0.11}, {"centered-clip", false, 0.4}} {
		r, err := Find(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := at(r.Factors(grammar(x...)), c.mean); math.Abs(got-1) > c.tol {
			t.Errorf("%s: %v, expected about 1", c.name, got)
		}
		if f := r.Factors(grammar(3)); len(f) != 1 || math.Abs(f[0]-1) > 1e-9 {
			t.Errorf("%s of one peer: %v, expected 1", c.name, f)
		}
		if f := r.Factors(grammar(0, 0)); math.IsNaN(f[0]) {
			t.Errorf("%s of zeros: %v", c.name, f)
		}
	}
}

func TestClipFactor(t *testing.T) {
	if ClipFactor(2, 4) > 0.5 || ClipFactor(2, 1) != 1 || ClipFactor(0, 0) != 0 || Lower([]float64{3, 1, 2, 4}) != 2 {
		t.Error("clip factors or the lower median are wrong")
	}
}
