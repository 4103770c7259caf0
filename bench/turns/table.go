package turns

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/bench"
)

// Table collects the measurements of both sides, turn by turn.
type Table struct {
	keys []key
	rows map[key]*row
}

type key struct{ bench, name, unit string }

// row is one case on both sides.
type row struct{ before, now side }

// side is what the turns of one side measured.
type side struct{ medians, best []float64 }

func (s *side) add(m *bench.Measurement) {
	best := m.Min
	if rate(m.Unit) {
		best = m.Max
	}
	s.medians, s.best = append(s.medians, m.Median), append(s.best, best)
}

// Add adds a turn. Cases that only one side has are left out.
func (t *Table) Add(before, now []bench.Measurement) {
	if t.rows == nil {
		t.rows = make(map[key]*row)
	}
	of := make(map[key]bench.Measurement)
	for _, m := range before {
		of[key{m.Bench, m.Case, m.Unit}] = m
	}
	for _, m := range now {
		k := key{m.Bench, m.Case, m.Unit}
		b, ok := of[k]
		if !ok || b.Min <= 0 || m.Min <= 0 || !timed(m.Unit) {
			continue
		}
		if t.rows[k] == nil {
			t.keys = append(t.keys, k)
			t.rows[k] = new(row)
		}
		r := t.rows[k]
		r.before.add(&b)
		r.now.add(&m)
	}
}

// timed reports whether a unit is one of times or of rates; others count something.
func timed(unit string) bool {
	return unit == "ns" || unit == "us" || unit == "µs" || unit == "ms" || unit == "s" || rate(unit)
}

func rate(unit string) bool { return strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "FLOPS") }

// slower returns by which factor now is slower than before.
func slower(unit string, before, now float64) float64 {
	if rate(unit) {
		return before / now
	}
	return now / before
}

// medians returns the factor of the medians of all turns, and the least and the largest
// of single turns.
func (r *row) medians(unit string) (ratio, least, most float64) {
	var turns []float64
	for i := range r.now.medians {
		turns = append(turns, slower(unit, r.before.medians[i], r.now.medians[i]))
	}
	return slower(unit, median(r.before.medians), median(r.now.medians)), slices.Min(turns), slices.Max(turns)
}

// best returns the factor of the best rounds of all turns. Other work of a machine only
// ever adds to a time, so of short rounds this factor varies less than that of medians.
func (r *row) best(unit string) float64 {
	pick := slices.Min[[]float64]
	if rate(unit) {
		pick = slices.Max[[]float64]
	}
	return slower(unit, pick(r.before.best), pick(r.now.best))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Write writes the table in Markdown and returns how many cases are slower than limit
// allows, by medians.
func (t *Table) Write(w io.Writer, limit float64) (missed int, err error) {
	var b strings.Builder
	b.WriteString("| case | unit | before | now | ratio | of single turns | of the best rounds |\n|---|---|---|---|---|---|---|\n")
	missedBest := 0
	for _, k := range t.keys {
		r := t.rows[k]
		ratio, least, most := r.medians(k.unit)
		verdict, best := "", r.best(k.unit)
		if ratio > limit {
			verdict = "missed, "
			missed++
		}
		if best > limit {
			missedBest++
		}
		fmt.Fprintf(&b, "| %s: %s | %s | %.4g | %.4g | %s%.3f | %.2f to %.2f | %.3f |\n", k.bench, k.name, k.unit,
			median(r.before.medians), median(r.now.medians), verdict, ratio, least, most, best)
	}
	fmt.Fprintf(&b, "\nOf %d cases %d are within %g by medians, %d by their best rounds.\n", len(t.keys), len(t.keys)-missed, limit, len(t.keys)-missedBest)
	_, err = io.WriteString(w, b.String())
	return missed, err
}
