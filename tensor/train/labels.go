package train

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// noteLabels is a note of weights that learnt from a table: its labels as JSON.
const noteLabels = "labels"

// labels are the names of a table's columns and classes in the order in which a network
// has them.
type labels struct {
	Columns []string
	Classes []string `json:",omitempty"` // none for a table with a Target
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
	if l == nil || slices.ContainsFunc(slices.Concat(l.Columns, l.Classes), func(s string) bool { return !utf8.ValidString(s) }) {
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
	return &labels{Columns: t.Train.Names, Classes: t.Train.Classes}
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
// l, which are those of owner. ErrData names a column or a class that is not in l.
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
	if columns != nil {
		out.Names, out.X = l.Columns, make([]float32, len(t.X))
		for r := range t.Rows {
			row := t.X[r*len(columns):]
			for c, to := range columns {
				out.X[r*len(columns)+to] = row[c]
			}
		}
	}
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
