package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Measurement is what one side of a scenario took, in Unit.
//
// A round gives one number, or one of every sample taken in it: Median, Min and Max are
// over the rounds (of samples, over their medians), P50 and P99 over all samples. N is
// the number of samples, or of what a round's number is an average of.
type Measurement struct {
	Bench  string  `json:"bench"`
	Case   string  `json:"case"`
	Unit   string  `json:"unit"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Rounds int     `json:"rounds"`
	N      int     `json:"n"`
}

// Bar is a figure with a limit that it should keep.
type Bar struct {
	Bench string  `json:"bench"`
	Bar   string  `json:"bar"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"`
	OK    bool    `json:"ok"`

	atLeast bool
}

// Report is the outcome of one scenario.
type Report struct {
	Bench        string
	Measurements []Measurement
	Bars         []Bar
	Rows         []OpRow // of ops-table

	// Shows the measurements in a form of their own; nil: in the usual one.
	table func(w io.Writer) error
}

// series collects one side's numbers, a slice a round.
type series struct {
	name, unit string
	n          int // what a number is an average of; 0: numbers are single samples
	rounds     [][]float64
}

func (s *series) add(samples ...float64) { s.rounds = append(s.rounds, samples) }

// median is that of the rounds' medians.
func (s *series) median() float64 { return quantile(s.medians(), 0.5) }

// medians are the medians of the rounds.
func (s *series) medians() []float64 {
	out := make([]float64, len(s.rounds))
	for i, r := range s.rounds {
		out[i] = quantile(r, 0.5)
	}
	return out
}

func (s *series) all() []float64 { return slices.Concat(s.rounds...) }

func (r *Report) measured(s *series) {
	med, all := s.medians(), s.all()
	n := s.n
	if n == 0 {
		n = len(all)
	}
	r.Measurements = append(r.Measurements, Measurement{
		Bench: r.Bench, Case: s.name, Unit: s.unit,
		Median: quantile(med, 0.5), Min: slices.Min(med), Max: slices.Max(med),
		P50: quantile(all, 0.5), P99: quantile(all, 0.99), Rounds: len(s.rounds), N: n,
	})
}

// single reports a figure that is known once.
func (r *Report) single(name, unit string, x float64) {
	r.measured(&series{name: name, unit: unit, rounds: [][]float64{{x}}})
}

// atMost and atLeast add a bar.
func (r *Report) atMost(name string, value, limit float64) {
	r.Bars = append(r.Bars, Bar{Bench: r.Bench, Bar: name, Value: value, Limit: limit, OK: value <= limit})
}

func (r *Report) atLeast(name string, value, limit float64) {
	r.Bars = append(r.Bars, Bar{Bench: r.Bench, Bar: name, Value: value, Limit: limit, OK: value >= limit, atLeast: true})
}

// ratio is the median over the rounds of a's median by b's.
func ratio(a, b *series) float64 { return ratioAt(a, b, 0.5) }

// ratioAt is the median over the rounds of a's q-th quantile by b's.
func ratioAt(a, b *series, q float64) float64 { return quantile(ratiosAt(a, b, q), 0.5) }

// roundRatios are the rounds' medians of a by those of b.
func roundRatios(a, b *series) []float64 { return ratiosAt(a, b, 0.5) }

func ratiosAt(a, b *series, q float64) []float64 {
	out := make([]float64, min(len(a.rounds), len(b.rounds)))
	for i := range out {
		out[i] = quantile(a.rounds[i], q) / quantile(b.rounds[i], q)
	}
	return out
}

// quantile is the q-th quantile of x by linear interpolation; NaN of nothing. x is not
// changed.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// WriteJSON writes one object a line: rows of a table, the measurements, then the bars.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	var err error
	for i := range r.Rows {
		err = errors.Join(err, enc.Encode(&r.Rows[i]))
	}
	for i := range r.Measurements {
		err = errors.Join(err, enc.Encode(&r.Measurements[i]))
	}
	for i := range r.Bars {
		err = errors.Join(err, enc.Encode(&r.Bars[i]))
	}
	return err
}

// WriteTable writes the same for people.
func (r *Report) WriteTable(w io.Writer) error {
	show := r.writeMeasurements
	if r.table != nil {
		show = r.table
	}
	if err := show(w); err != nil {
		return err
	}
	for _, b := range r.Bars {
		verdict, rule := "holds", "at most"
		if b.atLeast {
			rule = "at least"
		}
		if !b.OK {
			verdict = "MISSED"
		}
		if _, err := fmt.Fprintf(w, "  %-6s %s = %s (%s %s)\n", verdict, b.Bar, figure(b.Value), rule, figure(b.Limit)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) writeMeasurements(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "%s\tunit\tmedian\tmin\tmax\tp50\tp99\trounds\tn\t\n", r.Bench)
	for _, m := range r.Measurements {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", m.Case, m.Unit,
			figure(m.Median), figure(m.Min), figure(m.Max), figure(m.P50), figure(m.P99), m.Rounds, m.N)
	}
	return tw.Flush()
}

// figure prints x with four significant digits, large ones in full.
func figure(x float64) string {
	if math.Abs(x) >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	s := fmt.Sprintf("%.4g", x)
	if strings.Contains(s, "e") {
		return fmt.Sprintf("%.6f", x)
	}
	return s
}
