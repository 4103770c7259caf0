package data

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/shm/plain"
)

// Table is rows of numbers with what is to be predicted from them. As JSON it keeps its
// form: json.Marshal of Form, and json.Unmarshal into a Table for TableOptions.Like.
type Table struct {
	Names []string  // of the columns of X; c1, c2, ... if the file has none
	Rows  int       `json:",omitzero"` // at least 1, but in a Form
	X     []float32 `json:",omitzero"` // [Rows, len(Names)]

	Label   string    // the column that is predicted; empty with TableOptions.NoLabel
	Classes []string  `json:",omitzero"` // its values in order, unless Target has numbers
	Class   []int64   `json:",omitzero"` // [Rows], indices in Classes
	Target  []float32 `json:",omitzero"` // [Rows], with TableOptions.Regression

	// Categories has for each column of X the texts that its numbers stand for: 0 is the
	// first. It is nil for a column of numbers, and as a whole if all columns are.
	Categories [][]string `json:",omitzero"`

	// OneHot has for each column of X the text that it marks, with an empty Column for
	// other columns. It is nil without TableOptions.OneHot.
	OneHot []OneHot `json:",omitzero"`

	// Fill is what an empty field of each column of X became, or would have become. It is
	// nil without TableOptions.Fill.
	Fill []float32 `json:",omitzero"`

	// Without are columns of the file that are left out, as of TableOptions.
	Without []string `json:",omitzero"`

	// Notes are sentences for people about what may be a slip in the file: that it has no
	// names of columns, and columns of texts that look like numbers.
	Notes []string `json:"-"`

	// Scale is what ApplyScale has brought X to; nil if nothing did.
	Scale *Scale `json:",omitzero"`

	// TargetScale is what ApplyTargetScale has brought Target to; nil if nothing did.
	TargetScale *Scale `json:",omitzero"`
}

// OneHot is what a column of X marks: it is 1 in rows whose field in Column is Text, and
// 0 in the others. The columns of one Column lie side by side, in the order of its texts.
type OneHot struct {
	Column string `json:",omitzero"`
	Text   string `json:",omitzero"`
}

// Form returns t without its rows: what TableOptions.Like needs, and what a program keeps
// beside weights that learnt from t.
func (t *Table) Form() *Table {
	f := *t
	f.Rows, f.X, f.Class, f.Target, f.Notes = 0, nil, nil, nil, nil
	if t.Target != nil {
		f.Target = []float32{} // it is one of numbers to predict
	}
	return &f
}

// Split draws the rows of t in an order that depends on their number alone, and returns
// the first ones and the last n of them as two tables.
func (t *Table) Split(n int) (first, last *Table, err error) {
	if n < 1 || n >= t.Rows {
		return nil, nil, fmt.Errorf("%w: %s to split off from %d, expected 1 to %d", ErrMismatch, plain.Count(n, "row"), t.Rows, t.Rows-1)
	}
	order := NewOrder(t.Rows, 1)
	part := func(from, rows int) (*Table, error) {
		p := *t
		p.Rows, p.X = rows, make([]float32, rows*len(t.Names))
		if err := FillRows(order, uint64(from), t.X, p.X); err != nil {
			return nil, err
		}
		if t.Target != nil {
			p.Target = make([]float32, rows)
			return &p, FillRows(order, uint64(from), t.Target, p.Target)
		}
		if t.Class != nil {
			p.Class = make([]int64, rows)
			return &p, FillRows(order, uint64(from), t.Class, p.Class)
		}
		return &p, nil
	}
	if first, err = part(0, t.Rows-n); err != nil {
		return nil, nil, err
	}
	last, err = part(t.Rows-n, n)
	return first, last, err
}

// NumberScale returns the scale of X that leaves columns of texts as they are: their
// numbers are indices, or the marks of TableOptions.OneHot.
func (t *Table) NumberScale() (Scale, error) {
	s, err := ScaleOf(t.X, len(t.Names))
	if err != nil {
		return s, err
	}
	for c := range t.Names {
		if t.OneHot != nil && t.OneHot[c].Column != "" || t.Categories != nil && t.Categories[c] != nil {
			s.Mean[c], s.Deviation[c] = 0, 1
		}
	}
	return s, nil
}

// ApplyScale brings X to s, and keeps s as the table's Scale. A table that has one
// already is an error.
func (t *Table) ApplyScale(s Scale) error { return apply(&t.Scale, s, t.X, len(t.Names), "column") }

// ApplyTargetScale brings Target to s, a scale of one column, and keeps s as the table's
// TargetScale. A table that has one already is an error.
func (t *Table) ApplyTargetScale(s Scale) error {
	return apply(&t.TargetScale, s, t.Target, 1, "target")
}

// apply applies s to x, rows of so many columns, which were not scaled before, and sets
// was.
func apply(was **Scale, s Scale, x []float32, columns int, what string) error {
	if *was != nil {
		return fmt.Errorf("%w: scale of %ss that are scaled already, expected a table without one", ErrMismatch, what)
	}
	if len(s.Mean) != columns || len(s.Deviation) != columns {
		return fmt.Errorf("%w: a table with %s and a scale of %d, expected as many", ErrMismatch, plain.Count(columns, what), len(s.Mean))
	}
	for c := range columns {
		if mean, d := float64(s.Mean[c]), float64(s.Deviation[c]); math.IsNaN(mean) || math.IsInf(mean, 0) || !(d > 0) || math.IsInf(d, 0) {
			return fmt.Errorf("%w: a scale with the mean %v and the deviation %v, expected finite numbers, and a deviation above 0", ErrMismatch, mean, d)
		}
	}
	if err := s.Apply(x); err != nil {
		return err
	}
	*was = &s
	return nil
}

// ClassCounts returns how many rows each of Classes has.
func (t *Table) ClassCounts() []int {
	n := make([]int, len(t.Classes))
	for _, c := range t.Class {
		n[c]++
	}
	return n
}
