package train

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// noteLabels is a note of weights that learnt from a table: its labels as JSON.
const noteLabels = "labels"

// labels are the names of a table's columns and classes in the order in which a network
// has them, and what its numbers stand for.
type labels struct {
	Columns []string
	Classes []string `json:",omitempty"` // none for a table with a Target

	Categories [][]string  `json:",omitempty"` // as of data.Table
	Fill       []float32   `json:",omitempty"`
	Scale      *data.Scale `json:",omitempty"`
}

// labelsIn returns the labels in notes of the weights at path; nil if they have none.
func labelsIn(notes map[string]string, path string) (*labels, error) {
	text, ok := notes[noteLabels]
	if !ok {
		return nil, nil
	}
	l := &labels{}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("%w: weights in %s: %s %.200q: %w", ErrData, path, noteLabels, text, err)
	}
	return l, nil
}

// note returns the note of l; empty for nil, and where a name is no UTF-8, which JSON
// would not keep.
func (l *labels) note() string {
	if l == nil || slices.ContainsFunc(slices.Concat(append(l.Categories, l.Columns, l.Classes)...), func(s string) bool { return !utf8.ValidString(s) }) {
		return ""
	}
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // texts have JSON
	}
	return string(text)
}

// labelsOf returns the labels of d; nil if it is no table, or its classes have no names.
func labelsOf(d Data) *labels {
	t, ok := d.(*Table)
	if !ok || t.Train.Target == nil && len(t.Train.Classes) == 0 {
		return nil
	}
	return &labels{t.Train.Names, t.Train.Classes, t.Train.Categories, t.Train.Fill, t.Train.Scale}
}

// fit returns d with the columns and classes of its table in the order of l, which are
// those of owner. nil stands for the labels of the rows to train on. If d has no labels,
// fit returns d itself.
func (l *labels) fit(d Data, owner string) (Data, error) {
	own := labelsOf(d)
	if own == nil {
		return d, nil
	}
	if l == nil {
		l, owner = own, "the rows to train on"
	}
	t := *d.(*Table) // others have no labels
	var err error
	if t.Train, err = l.order(t.Train, t.From, owner); err != nil {
		return nil, err
	}
	t.Held, err = l.order(t.Held, t.From, owner)
	return &t, err
}

// order returns t, a table of the file from, with its columns and classes in the order of
// l, which are those of owner, with l's numbers for texts, and with l's scale. ErrData
// names a column, a class or a text that is not in l.
func (l *labels) order(t *data.Table, from, owner string) (*data.Table, error) {
	if (t.Target == nil) != (len(l.Classes) > 0) || t.Target == nil && len(t.Classes) == 0 {
		return nil, fmt.Errorf("%w: %s: %s have %s, expected a table of these", ErrData, from, owner, l.kind())
	}
	columns, err := places(t.Names, l.Columns, from, "column", owner)
	if err != nil {
		return nil, err
	}
	if len(t.Names) < len(l.Columns) {
		lacks := slices.IndexFunc(l.Columns, func(name string) bool { return !slices.Contains(t.Names, name) })
		return nil, fmt.Errorf("%w: %s has %d columns and lacks %.40q; %s have the columns %.400q", ErrData, from, len(t.Names), l.Columns[max(lacks, 0)], owner, l.Columns)
	}
	classes, err := places(t.Classes, l.Classes, from, "class", owner)
	if err != nil {
		return nil, err
	}
	out := *t
	if out.X, err = l.numbers(t, columns, from, owner); err != nil {
		return nil, err
	}
	out.Names, out.Categories, out.Fill, out.Scale = l.Columns, l.Categories, l.Fill, l.Scale
	out.Classes = l.Classes
	if classes != nil {
		out.Class = make([]int64, len(t.Class))
		for i, c := range t.Class {
			if c < 0 || c >= int64(len(classes)) {
				return nil, fmt.Errorf("%w: %s: row %d has class %d, expected 0 to %d", ErrData, from, i, c, len(classes)-1)
			}
			out.Class[i] = int64(classes[c])
		}
	}
	return &out, nil
}

// numbers returns t.X with column c where columns says, or where it is if columns is nil,
// and with l's texts and scale.
func (l *labels) numbers(t *data.Table, columns []int, from, owner string) ([]float32, error) {
	width := len(t.Names)
	if columns == nil {
		columns = make([]int, width)
		for c := range columns {
			columns[c] = c
		}
	}
	texts := make([][]int, width) // where those of a column of t are among l's
	same := (t.Scale == nil) == (l.Scale == nil)
	for c, to := range columns {
		var err error
		if texts[c], err = l.texts(t, c, to, from, owner); err != nil {
			return nil, err
		}
		same = same && to == c && texts[c] == nil
		if t.Scale != nil && l.Scale != nil {
			same = same && t.Scale.Mean[c] == l.Scale.Mean[to] && t.Scale.Deviation[c] == l.Scale.Deviation[to]
		}
	}
	if same {
		return t.X, nil
	}
	x := make([]float32, len(t.X))
	for c, to := range columns {
		for r := range t.Rows {
			v := t.X[r*width+c]
			if t.Scale != nil {
				v = v*t.Scale.Deviation[c] + t.Scale.Mean[c]
			}
			if texts[c] != nil {
				i := int(math.Round(float64(v)))
				if i < 0 || i >= len(texts[c]) {
					return nil, fmt.Errorf("%w: %s: row %d, column %.40q: %v, expected the number of one of %d texts", ErrData, from, r, t.Names[c], v, len(texts[c]))
				}
				v = float32(texts[c][i])
			}
			x[r*width+to] = v
		}
	}
	if l.Scale != nil {
		if err := l.Scale.Apply(x); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// texts returns where the texts of t's column c are among those of l's column to; nil if
// they are the same, or the columns hold numbers.
func (l *labels) texts(t *data.Table, c, to int, from, owner string) ([]int, error) {
	of := func(all [][]string, c int) []string {
		if all == nil {
			return nil
		}
		return all[c]
	}
	own, other := of(t.Categories, c), of(l.Categories, to)
	if (own == nil) != (other == nil) {
		hold := map[bool]string{true: "numbers", false: "texts"}
		return nil, fmt.Errorf("%w: %s: column %.40q holds %s, and that of %s %s, expected the same of both (data.TableOptions.Categories)",
			ErrData, from, t.Names[c], hold[own == nil], owner, hold[other == nil])
	}
	return places(own, other, from, "text", fmt.Sprintf("column %.40q of %s", t.Names[c], owner))
}

// kind says what l's network computes.
func (l *labels) kind() string {
	if len(l.Classes) > 0 {
		return fmt.Sprintf("the classes %.400q", l.Classes)
	}
	return "a number to predict, as of data.TableOptions.Regression"
}

// places returns where each of names is in all; nil if they have the same order.
func places(names, all []string, from, what, owner string) ([]int, error) {
	if slices.Equal(names, all) {
		return nil, nil
	}
	at := make([]int, len(names))
	for i, name := range names {
		if at[i] = slices.Index(all, name); at[i] < 0 {
			return nil, fmt.Errorf("%w: %s: %s %.40q is unknown to %s, which have %.400q", ErrData, from, what, name, owner, all)
		}
		if slices.Contains(at[:i], at[i]) {
			return nil, fmt.Errorf("%w: %s: %s %.40q is there twice, so that others can't be found by their names", ErrData, from, what, name)
		}
	}
	return at, nil
}

// notesAt returns the notes of the weights at path: a file or a folder, as of
// Options.Load.
func notesAt(path string) (map[string]string, error) {
	file, err := weightsAt(path)
	if err != nil {
		return nil, err
	}
	if file == "" {
		c, err := openKept(path)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.Notes, nil
	}
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Metadata(), nil
}

// fitted returns d with the labels in the order of the weights at path, which have notes.
func fitted(d Data, notes map[string]string, path string) (Data, error) {
	if labelsOf(d) == nil {
		return d, nil
	}
	l, err := labelsIn(notes, path)
	if err != nil {
		return nil, err
	}
	return l.fit(d, "the weights in "+path)
}

// fit returns d with the labels in the order of the weights that the run begins with.
func (r *run) fit(d Data) (Data, error) {
	switch {
	case r.from != nil:
		return fitted(d, r.from.Notes, r.o.Resume)
	case r.o.Load != "":
		notes, err := notesAt(r.o.Load)
		if err != nil {
			return nil, err
		}
		return fitted(d, notes, r.o.Load)
	}
	return fitted(d, nil, "")
}
