package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/shm/plain"
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
// form of the table with the weights (data.Table.Form): names of columns and classes,
// texts and scales. Where a run begins with weights, or evaluates some, a table of
// another form is brought to theirs. Standardize is for numbers whose size is not about
// 1.
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
	rest, held, err := t.Split(t.Rows / heldEvery)
	return &Table{Train: rest, Held: held, From: from}, err
}

// Standardize brings the columns of numbers, and the numbers to predict, to a mean of 0
// and a deviation of 1 in the rows to train on, and the rows held out to the same scales.
// Networks learn poorly from numbers of other sizes, and hardly learn large ones to
// predict. Losses of a run are then in squared deviations, where a network that knows
// nothing has 1; what is held out is told in the table's own unit.
func (d *Table) Standardize() error {
	for _, t := range []*data.Table{d.Train, d.Held} {
		if err := whole(t, plain.Name(d.From), 1); err != nil {
			return err
		}
	}
	scale, err := d.Train.NumberScale()
	if err != nil {
		return err
	}
	if err := errors.Join(d.Train.ApplyScale(scale), d.Held.ApplyScale(scale)); err != nil || d.Train.Target == nil {
		return err
	}
	target, err := data.ScaleOf(d.Train.Target, 1)
	if err != nil {
		return err
	}
	return errors.Join(d.Train.ApplyTargetScale(target), d.Held.ApplyTargetScale(target))
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
		return fmt.Errorf("%w: %s: %s of %s with %s and %s, expected at least %s and all of each", ErrData, from, plain.Count(t.Rows, "row"),
			plain.Count(len(t.Names), "column"), plain.Count(len(t.X), "number"), plain.Count(labels, "label"), plain.Count(least, "row"))
	}
	if err := shaped(t); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrData, from, err)
	}
	return nil
}

// shaped returns an error if a list of t that has an entry for each column is not as long
// as the columns.
func shaped(t *data.Table) error {
	columns := len(t.Names)
	of := func(s *data.Scale, n int) bool { return s == nil || len(s.Mean) == n && len(s.Deviation) == n }
	if t.Categories != nil && len(t.Categories) != columns || t.OneHot != nil && len(t.OneHot) != columns ||
		t.Fill != nil && len(t.Fill) != columns || !of(t.Scale, columns) || !of(t.TargetScale, 1) {
		return fmt.Errorf("%d columns with categories of %d, marks of %d, fills of %d, or scales of another number, expected one of each for every column, or none",
			columns, len(t.Categories), len(t.OneHot), len(t.Fill))
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
		if err := whole(t, plain.Name(d.From), 1); err != nil {
			return err
		}
	}
	if len(d.Held.Names) != len(d.Train.Names) || (d.Held.Target == nil) != (d.Train.Target == nil) {
		return fmt.Errorf("%w: %s: the rows held out have %s and those to train on %d, expected as many, and classes or numbers in both",
			ErrData, plain.Name(d.From), plain.Count(len(d.Held.Names), "column"), len(d.Train.Names))
	}
	if n := len(d.Train.Classes); m.Classes > 0 && n > m.Classes {
		return fmt.Errorf("%w: %s: column %q has %s, so %s; %s has %d; if it is a number to predict, read the table with data.TableOptions.Regression",
			ErrData, plain.Name(d.From), d.Train.Label, plain.Count(n, "value"), plain.Count(n, "class"), m.Name, m.Classes)
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
	if t.Target != nil {
		r.sum.Explained = explained(r.sum.HeldOut, t.Target)
		if s := t.TargetScale; s != nil {
			r.sum.HeldOut *= float64(s.Deviation[0]) * float64(s.Deviation[0])
		}
	} else {
		accuracy := right / float64(t.Rows)
		r.sum.Accuracy = &accuracy
	}
	r.sum.EvalSeconds = time.Since(start).Seconds()
	return nil
}

// explained returns the share of the variance of x that predictions explain whose mean
// squared error is loss. It is nil if all numbers in x are equal.
func explained(loss float64, x []float32) *float64 {
	s, err := data.ScaleOf(x, 1)
	if err != nil || slices.Min(x) == slices.Max(x) {
		return nil
	}
	share := 1 - loss/(float64(s.Deviation[0])*float64(s.Deviation[0]))
	return &share
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
