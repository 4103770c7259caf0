package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
)

const (
	// heldEvery is how many rows there are for each that is held out.
	heldEvery = 5

	// evalRows is the number of rows that are evaluated at once.
	evalRows = 4096
)

// Table is data of a model that predicts a column of a table from the others: [n,
// columns] in; out are [n, classes], or of a table with a Target [n, 1]. Train saves the
// names of columns and classes with the weights, the texts of data.Table.Categories and
// the Scale: a table in which they are others has those of the weights which a run begins
// with or evaluates.
type Table struct {
	Train, Held *data.Table
	From        string // file, or a name for errors
}

// LoadTable loads the file of comma-separated values at path and holds every fifth row
// out, as SplitTable does.
func LoadTable(path string, o *data.TableOptions) (*Table, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: no file of a table, expected its path", ErrData)
	}
	t, err := data.ReadCSVFile(path, o)
	if err != nil {
		return nil, err
	}
	return SplitTable(t, path)
}

// SplitTable holds every fifth row of t out, in an order that does not depend on what the
// rows hold. from is the table's name for errors. A table of fewer than five rows is
// ErrData.
func SplitTable(t *data.Table, from string) (*Table, error) {
	if err := whole(t, from, heldEvery); err != nil {
		return nil, err
	}
	order := data.NewOrder(t.Rows, 1)
	held := t.Rows / heldEvery
	part := func(first, rows int) (*data.Table, error) {
		p := *t
		p.Rows, p.X = rows, make([]float32, rows*len(t.Names))
		err := data.FillRows(order, uint64(first), t.X, p.X)
		if t.Target != nil {
			p.Target = make([]float32, rows)
			return &p, errors.Join(err, data.FillRows(order, uint64(first), t.Target, p.Target))
		}
		p.Class = make([]int64, rows)
		return &p, errors.Join(err, data.FillRows(order, uint64(first), t.Class, p.Class))
	}
	rest, err := part(0, t.Rows-held)
	if err != nil {
		return nil, err
	}
	last, err := part(t.Rows-held, held)
	return &Table{Train: rest, Held: last, From: from}, err
}

// whole returns an error if t has fewer rows than least, or has not all numbers and
// labels of them.
func whole(t *data.Table, from string, least int) error {
	if t == nil {
		return fmt.Errorf("%w: %s: no table, expected one to train on and one that is held out", ErrData, from)
	}
	labels := len(t.Class)
	if t.Target != nil {
		labels = len(t.Target)
	}
	if t.Rows < least || len(t.Names) == 0 || len(t.X) != t.Rows*len(t.Names) || labels != t.Rows {
		return fmt.Errorf("%w: %s: %d rows of %d columns with %d numbers and %d labels, expected at least %d rows and all of each",
			ErrData, from, t.Rows, len(t.Names), len(t.X), labels, least)
	}
	columns := len(t.Names)
	if t.Categories != nil && len(t.Categories) != columns || t.Scale != nil && (len(t.Scale.Mean) != columns || len(t.Scale.Deviation) != columns) {
		return fmt.Errorf("%w: %s: %d columns with categories of %d, or with a scale of another number, expected one of each for every column, or none",
			ErrData, from, columns, len(t.Categories))
	}
	return nil
}

func (d *Table) kind() string  { return "table" }
func (d *Table) where() string { return d.From }
func (d *Table) unit() string  { return "rows" }

// content returns the numbers and the labels as bytes, and the names.
func (d *Table) content() [][]byte {
	t := d.Train
	numbers := make([]byte, 0, 4*len(t.X)+8*len(t.Class)+4*len(t.Target))
	for _, part := range []any{t.X, t.Class, t.Target} {
		var err error
		if numbers, err = binary.Append(numbers, binary.LittleEndian, part); err != nil {
			panic(err) // the types have a size
		}
	}
	content := [][]byte{numbers, []byte(strings.Join(append(append([]string{t.Label}, t.Names...), t.Classes...), "\n"))}
	for _, all := range t.Categories {
		content = append(content, []byte(strings.Join(all, "\n")))
	}
	return content
}

func (d *Table) check(m *Model) error {
	for _, t := range []*data.Table{d.Train, d.Held} {
		if err := whole(t, d.From, 1); err != nil {
			return err
		}
	}
	if len(d.Held.Names) != len(d.Train.Names) || (d.Held.Target == nil) != (d.Train.Target == nil) {
		return fmt.Errorf("%w: %s: the rows held out have %d columns and those to train on %d, expected as many, and classes or numbers in both",
			ErrData, d.From, len(d.Held.Names), len(d.Train.Names))
	}
	if n := len(d.Train.Classes); m.Classes > 0 && n > m.Classes {
		return fmt.Errorf("%w: %s: column %q has %d values, so %d classes; %s has %d; if it is a number to predict, read the table with data.TableOptions.Regression",
			ErrData, d.From, d.Train.Label, n, n, m.Name, m.Classes)
	}
	return nil
}

// loss returns the cross entropy of classes, or the mean squared error.
func (d *Table) loss(out, y *tensor.Tensor) *tensor.Tensor {
	if d.Train.Target == nil {
		return nn.CrossEntropy(out, y)
	}
	return nn.MSE(out, y.Reshape(out.Shape()...)) // so that [n] and [n, 1] are no [n, n]
}

// upload uploads rows of x with their labels, of which one slice is nil.
func (d *Table) upload(s *tensor.Session, x []float32, class []int64, target []float32) (in, y *tensor.Tensor) {
	columns := len(d.Train.Names)
	in = tensor.From(s, x, len(x)/columns, columns)
	if d.Train.Target == nil {
		return in, tensor.From(s, class, len(class))
	}
	return in, tensor.From(s, target, len(target))
}

// steps feeds shuffled epochs of the rows.
func (d *Table) steps(r *run) (feed, int, error) {
	rows, t := r.rows(), d.Train
	order := data.NewOrder(t.Rows, r.o.Seed)
	x := make([]float32, rows*len(t.Names))
	var class []int64
	var target []float32
	label := func(at uint64) error { return data.FillRows(order, at, t.Class, class) }
	if t.Target == nil {
		class = make([]int64, rows)
	} else {
		target = make([]float32, rows)
		label = func(at uint64) error { return data.FillRows(order, at, t.Target, target) }
	}
	return func(n int) (*tensor.Tensor, *tensor.Tensor, error) {
		at := uint64(n) * uint64(rows)
		if err := errors.Join(data.FillRows(order, at, t.X, x), label(at)); err != nil {
			return nil, nil, err
		}
		in, y := d.upload(r.s, x, class, target)
		return in, y, nil
	}, rows, nil
}

// evaluate evaluates every row that was held out.
func (d *Table) evaluate(ctx context.Context, r *run) error {
	start, t := time.Now(), d.Held
	var right, loss float64
	for first := 0; first < t.Rows; first += evalRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(first+evalRows, t.Rows)
		hits, mean, err := d.judge(r, first, end)
		if err != nil {
			return err
		}
		right += hits
		loss += mean * float64(end-first)
	}
	r.sum.HeldOut = loss / float64(t.Rows)
	if t.Target == nil {
		accuracy := right / float64(t.Rows)
		r.sum.Accuracy = &accuracy
	}
	r.sum.EvalSeconds = time.Since(start).Seconds()
	return nil
}

// judge returns how many of the held-out rows [first, end) have the right class, and the
// mean of their losses, with one program and one read.
func (d *Table) judge(r *run, first, end int) (hits, loss float64, err error) {
	t, columns := d.Held, len(d.Held.Names)
	both := nn.Result(r.s, func() *tensor.Tensor {
		var class []int64
		var target []float32
		if t.Target == nil {
			class = t.Class[first:end]
		} else {
			target = t.Target[first:end]
		}
		x, y := d.upload(r.s, t.X[first*columns:end*columns], class, target)
		out := r.net.Forward(x)
		same := tensor.Zeros(r.s, tensor.F32)
		if t.Target == nil {
			same = out.Argmax(-1).Eq(y).Cast(tensor.F32).Sum()
		}
		return tensor.Stack(0, same, d.loss(out, y))
	})
	defer both.Free()
	v, err := tensor.Data[float32](both)
	if err != nil {
		return 0, 0, err
	}
	return float64(v[0]), float64(v[1]), nil
}

// sample does nothing: the model writes no text.
func (d *Table) sample(context.Context, *run) error { return nil }
