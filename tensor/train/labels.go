package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// noteTable is a note of weights that learnt from a table: its form (data.Table.Form) as
// JSON.
const noteTable = "table"

// FormOf returns the form of the table that the weights at path (as of Options.Load)
// learnt from, for data.TableOptions.Like: other rows that are read so suit the network.
// Weights that learnt from no table are ErrData. A program that saves by nn.Save
// names it, as JSON, in the note "table".
func FormOf(path string) (*data.Table, error) {
	notes, err := notesAt(path)
	if err != nil {
		return nil, err
	}
	form, err := formIn(notes, path)
	if err == nil && form == nil {
		err = fmt.Errorf("%w: the weights in %s do not say which table they learnt from, expected those of a run on a train.Table (Options.Save, or a checkpoint)", ErrData, plain.Name(path))
	}
	return form, err
}

// formIn returns the form in notes of the weights at path; nil if they have none.
func formIn(notes map[string]string, path string) (*data.Table, error) {
	text, ok := notes[noteTable]
	if !ok {
		return nil, nil
	}
	form := &data.Table{}
	if err := json.Unmarshal([]byte(text), form); err != nil {
		return nil, fmt.Errorf("%w: weights in %s: %s %.200q: %w", ErrData, plain.Name(path), noteTable, text, err)
	}
	err := shaped(form)
	if err == nil && len(form.Names) == 0 {
		err = errors.New("no columns, expected at least 1")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: weights in %s: %s %.200q: %w", ErrData, plain.Name(path), noteTable, text, err)
	}
	return form, nil
}

// formNote returns the note of a form. It is empty for nil, and if a name is not UTF-8,
// since JSON would change that.
func formNote(form *data.Table) (string, error) {
	if form == nil {
		return "", nil
	}
	names := slices.Concat(append(form.Categories, form.Names, form.Classes, form.Without, []string{form.Label})...)
	if slices.ContainsFunc(names, func(s string) bool { return !utf8.ValidString(s) }) {
		return "", nil
	}
	text, err := json.Marshal(form)
	if err != nil { // a number that is not finite
		return "", fmt.Errorf("%w: the form of the table: %w", ErrData, err)
	}
	return string(text), nil
}

// formOf returns the form of d; nil if it is no table, or its classes have no names.
func formOf(d Data) *data.Table {
	t, ok := d.(*Table)
	if !ok || t.Train.Target == nil && len(t.Train.Classes) == 0 {
		return nil
	}
	return t.Train.Form()
}

// fitted returns d with its table in the form that the notes of the weights at path have.
func fitted(d Data, notes map[string]string, path string) (Data, error) {
	if formOf(d) == nil {
		return d, nil
	}
	form, err := formIn(notes, path)
	if err != nil {
		return nil, err
	}
	return fit(d, form, "the weights in "+plain.Name(path))
}

// fit returns d with its table in the form of owner; a nil form stands for that of d's
// rows to train on. If d has no form, fit returns d itself.
func fit(d Data, form *data.Table, owner string) (Data, error) {
	own := formOf(d)
	if own == nil {
		return d, nil
	}
	if form == nil {
		form, owner = own, "the rows to train on"
	}
	t := *d.(*Table) // others have no form
	f := fitting{form, plain.Name(t.From), owner}
	var err error
	if t.Train, err = f.order(t.Train); err != nil {
		return nil, err
	}
	t.Held, err = f.order(t.Held)
	return &t, err
}

// fitting brings tables that were read from the file from to the form of owner, which is
// its Table.
type fitting struct {
	*data.Table
	from, owner string
}

// order returns t in the form of f: with f's order of columns and classes, f's numbers
// for texts, and f's scales. The error, ErrData, names a column, a class or a text that f
// does not have.
func (f fitting) order(t *data.Table) (*data.Table, error) {
	if (t.Target == nil) != (f.Target == nil) || t.Target == nil && len(t.Classes) == 0 {
		return nil, fmt.Errorf("%w: %s: %s have %s, expected a table of these", ErrData, f.from, f.owner, f.kind())
	}
	classes, err := f.places(t.Classes, f.Classes, "class", f.owner)
	if err != nil {
		return nil, err
	}
	out, err := f.rows(t)
	if err != nil {
		return nil, err
	}
	out.Classes = f.Classes
	if classes != nil {
		out.Class = make([]int64, len(t.Class))
		for i, c := range t.Class {
			if c < 0 || c >= int64(len(classes)) {
				return nil, fmt.Errorf("%w: %s: row %d has class %d, expected 0 to %d", ErrData, f.from, i, c, len(classes)-1)
			}
			out.Class[i] = int64(classes[c])
		}
	}
	if t.Target != nil {
		out.Target, out.TargetScale = rescaled(t.Target, t.TargetScale, f.TargetScale), f.TargetScale
	}
	return out, nil
}

// rescaled returns the numbers x, which have the scale was, brought to the scale is. A
// nil scale changes nothing.
func rescaled(x []float32, was, is *data.Scale) []float32 {
	if was == is || was != nil && is != nil && was.Mean[0] == is.Mean[0] && was.Deviation[0] == is.Deviation[0] {
		return x
	}
	out := slices.Clone(x)
	for i := range out {
		if was != nil {
			out[i] = out[i]*was.Deviation[0] + was.Mean[0]
		}
		if is != nil {
			out[i] = (out[i] - is.Mean[0]) / is.Deviation[0]
		}
	}
	return out
}

// rows returns t with the numbers of its columns as the form has them.
func (f fitting) rows(t *data.Table) (*data.Table, error) {
	columns, err := f.places(t.Names, f.Names, "column", f.owner)
	if err != nil {
		return nil, err
	}
	have := indexOf(t.Names)
	for c, name := range f.Names {
		m := f.mark(c)
		if _, ok := have[name]; !ok && (m.Column == "" || !slices.ContainsFunc(t.OneHot, func(o data.OneHot) bool { return o.Column == m.Column })) {
			return nil, fmt.Errorf("%w: %s has %s and lacks %.40q; %s have the columns %s", ErrData, f.from, plain.Count(len(t.Names), "column"), name, f.owner, plain.Names(f.Names))
		} // else no row of t has the text
	}
	out := *t
	if out.X, err = f.numbers(t, columns); err != nil {
		return nil, err
	}
	out.Names, out.Categories, out.OneHot = f.Names, f.Categories, f.OneHot
	out.Fill, out.Without, out.Scale = f.Fill, f.Without, f.Scale
	return &out, nil
}

// mark returns the text that column c of the form marks.
func (f fitting) mark(c int) data.OneHot {
	if f.OneHot == nil {
		return data.OneHot{}
	}
	return f.OneHot[c]
}

// numbers returns t.X with column c where columns says, or where it is if columns is nil,
// and with the form's texts and scale.
func (f fitting) numbers(t *data.Table, columns []int) ([]float32, error) {
	width, to := len(t.Names), len(f.Names)
	if columns == nil {
		columns = make([]int, width)
		for c := range columns {
			columns[c] = c
		}
	}
	texts := make([][]int, width) // where those of a column of t are among the form's
	same := (t.Scale == nil) == (f.Scale == nil) && width == to
	for c, at := range columns {
		var err error
		if texts[c], err = f.texts(t, c, at); err != nil {
			return nil, err
		}
		same = same && at == c && texts[c] == nil
		if t.Scale != nil && f.Scale != nil {
			same = same && t.Scale.Mean[c] == f.Scale.Mean[at] && t.Scale.Deviation[c] == f.Scale.Deviation[at]
		}
	}
	if same {
		return t.X, nil
	}
	x := make([]float32, t.Rows*to)
	for c, at := range columns {
		for r := range t.Rows {
			v := t.X[r*width+c]
			if t.Scale != nil {
				v = v*t.Scale.Deviation[c] + t.Scale.Mean[c]
			}
			if texts[c] != nil {
				i := int(math.Round(float64(v)))
				if i < 0 || i >= len(texts[c]) {
					return nil, fmt.Errorf("%w: %s: row %d, column %.40q: %v, expected the number of one of %d texts", ErrData, f.from, r, t.Names[c], v, len(texts[c]))
				}
				v = float32(texts[c][i])
			}
			x[r*to+at] = v
		}
	}
	if f.Scale != nil {
		if err := f.Scale.Apply(x); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// texts returns the index of each text of t's column c among the texts of the form's
// column to; nil if both lists are equal, or if the columns hold numbers.
func (f fitting) texts(t *data.Table, c, to int) ([]int, error) {
	of := func(all [][]string, c int) []string {
		if all == nil {
			return nil
		}
		return all[c]
	}
	own, other := of(t.Categories, c), of(f.Categories, to)
	if (own == nil) != (other == nil) {
		hold := map[bool]string{true: "numbers", false: "texts"}
		return nil, fmt.Errorf("%w: %s: column %.40q holds %s, and that of %s %s, expected the same of both (data.TableOptions.Categories)",
			ErrData, f.from, t.Names[c], hold[own == nil], f.owner, hold[other == nil])
	}
	return f.places(own, other, "text", fmt.Sprintf("column %.40q of %s", t.Names[c], f.owner))
}

// kind says what a network of the form computes.
func (f fitting) kind() string {
	if f.Target == nil {
		return "the classes " + plain.Names(f.Classes)
	}
	return "a number to predict, as of data.TableOptions.Regression"
}

// places returns the index of each of names in all, the names that owner has; nil if both
// lists are equal.
func (f fitting) places(names, all []string, what, owner string) ([]int, error) {
	if slices.Equal(names, all) {
		return nil, nil
	}
	at, index, taken := make([]int, len(names)), indexOf(all), make([]bool, len(all))
	for i, name := range names {
		to, ok := index[name]
		if !ok {
			return nil, fmt.Errorf("%w: %s: %s %.40q is unknown to %s, which have %s; correct it, leave it out, or train again with rows that have it", ErrData, f.from, what, name, owner, plain.Names(all))
		}
		if taken[to] {
			return nil, fmt.Errorf("%w: %s: %s %.40q is there twice, so that others can't be found by their names; rename one", ErrData, f.from, what, name)
		}
		at[i], taken[to] = to, true
	}
	return at, nil
}

// indexOf returns where each of names is.
func indexOf(names []string) map[string]int {
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	return index
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

// fit returns d with its table in the form of the weights that the run begins with.
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
