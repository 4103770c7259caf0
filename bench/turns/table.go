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

// row is one case: the medians that each turn measured.
type row struct{ before, now []float64 }

// Add adds a turn. Cases that only one side has are left out.
func (t *Table) Add(before, now []bench.Measurement) {
	if t.rows == nil {
		t.rows = make(map[key]*row)
	}
	of := make(map[key]float64)
	for _, m := range before {
		of[key{m.Bench, m.Case, m.Unit}] = m.Median
	}
	for _, m := range now {
		k := key{m.Bench, m.Case, m.Unit}
		b, ok := of[k]
		if !ok || b <= 0 || m.Median <= 0 || !timed(m.Unit) {
			continue
		}
		if t.rows[k] == nil {
			t.keys = append(t.keys, k)
			t.rows[k] = new(row)
		}
		r := t.rows[k]
		r.before, r.now = append(r.before, b), append(r.now, m.Median)
	}
}

// timed reports whether a unit is one of times or of rates; others count something.
func timed(unit string) bool {
	return unit == "ns" || unit == "us" || unit == "µs" || unit == "ms" || unit == "s" || rate(unit)
}

func rate(unit string) bool { return strings.HasSuffix(unit, "/s") || strings.HasSuffix(unit, "FLOPS") }

// slower returns by which factor now is slower than before, and the least and the largest
// of the single turns. The factor is that of the medians.
func (r *row) slower(unit string) (ratio, least, most float64) {
	of := func(b, n float64) float64 {
		if rate(unit) {
			return b / n
		}
		return n / b
	}
	var turns []float64
	for i := range r.now {
		turns = append(turns, of(r.before[i], r.now[i]))
	}
	return of(median(r.before), median(r.now)), slices.Min(turns), slices.Max(turns)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Write writes the table in Markdown and returns how many cases are slower than limit
// allows.
func (t *Table) Write(w io.Writer, limit float64) (missed int, err error) {
	var b strings.Builder
	b.WriteString("| case | unit | before | now | ratio | of single turns |\n|---|---|---|---|---|---|\n")
	for _, k := range t.keys {
		r := t.rows[k]
		ratio, least, most := r.slower(k.unit)
		verdict := ""
		if ratio > limit {
			verdict = "missed, "
			missed++
		}
		fmt.Fprintf(&b, "| %s: %s | %s | %.4g | %.4g | %s%.3f | %.2f to %.2f |\n", k.bench, k.name, k.unit, median(r.before), median(r.now), verdict, ratio, least, most)
	}
	fmt.Fprintf(&b, "\n%d of %d cases are within %g.\n", len(t.keys)-missed, len(t.keys), limit)
	_, err = io.WriteString(w, b.String())
	return missed, err
}
