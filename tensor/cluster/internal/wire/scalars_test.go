package wire

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestScalarsArePredicted(t *testing.T) {
	var sender, receiver History
	m := Run{Hash: Hash{1}, Base: 100}
	nan := math.NaN()
	for step, c := range []struct {
		scalars []float64
		changed int
	}{
		{[]float64{1, 2, nan, 4, 5, 6, 7, 8, 9}, 9},
		{[]float64{1, 2, nan, 4, 5, 6, 7, 8, 9}, 0},
		{[]float64{1, 0.5, nan, 4, 5, 6, 7, 8, 10}, 2},
		{[]float64{0, 0.5, nan, 4, 5, 6, 7, 8, 10}, 1},
		{[]float64{math.Copysign(0, -1), 0.5, nan, 4, 5, 6, 7, 8, 10}, 1},
		{[]float64{1, 2}, 2},
		{nil, 0},
	} {
		m.Scalars = c.scalars
		without := m
		without.Scalars = nil
		body := AppendRun(nil, &m, &sender)
		if n := len(body) - len(AppendRun(nil, &without, &sender)); n != 8*c.changed+(len(c.scalars)+7)/8 {
			t.Errorf("step %d: %d scalars of which %d changed take %d bytes", step, len(c.scalars), c.changed, n)
		}
		var got Run
		if err := ParseRun(body, &got, &receiver); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got.Scalars, c.scalars, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			t.Errorf("step %d: %v arrive as %v", step, c.scalars, got.Scalars)
		}
		sender.Record(&m)
		receiver.Record(&got)
		m.Base += 10
	}
}

func TestScalarsPredictedFromNothing(t *testing.T) {
	body := AppendRun(nil, &Run{Scalars: []float64{1, 2, 3}}, nil)
	// the mask of three that changed
	at := slices.Index(body[runFixed+7:], 7) + runFixed + 7
	for _, mask := range []byte{3, 0, 0x87} {
		bad := slices.Clone(body)
		bad[at] = mask
		var m Run
		if err := ParseRun(bad, &m, nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("mask %#x: %v, expected ErrMalformed", mask, err)
		}
	}
}
