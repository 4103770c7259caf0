// Command classifier trains a network on a table of comma-separated values, whose last
// column is the class, and says how often it is right about rows that it did not see. It
// brings the columns to the same size first, for networks learn poorly otherwise. Columns
// of texts, which -categories names, become numbers, and -fill says what an empty field
// becomes. Without an argument it takes points.csv: two features, three classes. With
// -predict it prints the class of each row of another table, which has the same columns
// by name but no class, by the weights that -save has saved. With -evaluate it says how
// often they are right about a table that has the class, too.
//
//	go run .
//	go run . -epochs 300 -save model.safetensors mine.csv
//	go run . -categories colour,shape -fill mean -save model.safetensors mine.csv
//	go run . -load model.safetensors -predict new.csv
//	go run . -load model.safetensors -evaluate test.csv
//
// It runs in this process, or on a worker while `ringside up` runs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

const (
	batch  = 32
	hidden = 64
)

func main() {
	epochs := flag.Int("epochs", 100, "how often each row is seen")
	save := flag.String("save", "", "safetensors file for the weights")
	load := flag.String("load", "model.safetensors", "weights for -predict and -evaluate")
	var o data.TableOptions
	flag.Func("categories", "columns of texts, `a,b`; '*' for all", func(names string) error {
		for name := range strings.SplitSeq(names, ",") {
			o.Categories = append(o.Categories, strings.TrimSpace(name))
		}
		return nil
	})
	flag.Func("fill", "`what` an empty field of a column of numbers becomes: a number, or mean, that of the column", func(text string) error {
		o.Fill = data.FillMean
		if text == "mean" {
			return nil
		}
		x, err := strconv.ParseFloat(text, 32)
		o.Fill = data.FillNumber(float32(x))
		return err
	})
	rows := flag.String("predict", "", "table of rows whose classes are printed, instead of training")
	tests := flag.String("evaluate", "", "table of rows with their classes, of which the share that is right is printed, instead of training")
	flag.Parse()
	path := "points.csv"
	if flag.NArg() > 1 {
		fmt.Fprintf(os.Stderr, "classifier: %q: expected one table, behind all flags\n", flag.Args())
		os.Exit(2)
	}
	if flag.NArg() > 0 {
		path = flag.Arg(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *rows != "":
		err = predict(ctx, os.Stdout, *load, *rows)
	case *tests != "":
		err = evaluate(ctx, os.Stdout, *load, *tests)
	default:
		err = withAdvice(run(ctx, path, *epochs, *save, &o))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "classifier:", err)
		os.Exit(1)
	}
}

// withAdvice adds to the error of a field that is no number the flag that takes it.
func withAdvice(err error) error {
	var field *data.FieldError
	switch {
	case !errors.As(err, &field):
		return err
	case field.Value == "":
		return fmt.Errorf("%w\nhere: -fill mean makes the mean of its column of every empty field, -fill 0 a zero", err)
	}
	return fmt.Errorf("%w\nhere: -categories '%s' makes numbers of the texts of that column, -categories '*' of all columns of texts", err, field.Column)
}

// network returns the model: as many numbers as there are classes, the largest of which
// is that of the row's class.
func network(sess *tensor.Session, columns, classes int) nn.Sequential {
	return nn.Sequential{
		nn.NewLinear(sess, columns, hidden, true), nn.ReLU(),
		nn.NewLinear(sess, hidden, hidden, true), nn.ReLU(),
		nn.NewLinear(sess, hidden, classes, true),
	}
}

// labels is what the file of weights says of the table that they are of.
type labels struct {
	Columns, Classes []string
	Label            string
	Categories       [][]string // texts of columns, for which they have numbers
	Fill             []float32  // for empty fields
	Scale            data.Scale
}

// predict prints the class of each row of the table at path.
func predict(ctx context.Context, out io.Writer, weights, path string) error {
	table, classes, err := judge(ctx, weights, path, true)
	if err != nil {
		return err
	}
	for _, c := range classes {
		if _, err := fmt.Fprintln(out, table.Classes[c]); err != nil {
			return err
		}
	}
	return nil
}

// evaluate prints how many rows of the table at path the weights are right about.
func evaluate(ctx context.Context, out io.Writer, weights, path string) error {
	table, classes, err := judge(ctx, weights, path, false)
	if err != nil {
		return err
	}
	right := 0
	for i, c := range classes {
		if c == table.Class[i] {
			right++
		}
	}
	_, err = fmt.Fprintf(out, "%.1f %% of %d rows are right\n", 100*float64(right)/float64(table.Rows), table.Rows)
	return err
}

// judge returns the table at path in the form of that which the weights learnt from, with
// its classes, and for each row the class that the weights say. unlabelled is a table
// without a class of its own.
func judge(ctx context.Context, weights, path string, unlabelled bool) (*data.Table, []int64, error) {
	file, err := safetensors.Open(weights)
	if err != nil {
		return nil, nil, err
	}
	notes := file.Metadata()
	if err := file.Close(); err != nil {
		return nil, nil, err
	}
	var of labels
	if err := json.Unmarshal([]byte(notes["labels"]), &of); err != nil {
		return nil, nil, fmt.Errorf("%s has no names of classes, expected a file that -save has written: %w", weights, err)
	}
	like := &data.Table{Names: of.Columns, Categories: of.Categories, Fill: of.Fill, Scale: &of.Scale, Label: of.Label, Classes: of.Classes}
	table, err := data.ReadCSVFile(path, &data.TableOptions{Like: like, NoLabel: unlabelled})
	if err != nil {
		return nil, nil, err
	}
	table.Classes = of.Classes
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	defer sess.Close()
	net := network(sess, len(of.Columns), len(of.Classes))
	if _, err := nn.Load(weights, net.Params(), nil); err != nil {
		return nil, nil, err
	}
	var classes []int64
	sess.NoGrad(func() {
		x := tensor.From(sess, table.X, table.Rows, len(table.Names))
		classes, err = tensor.Data[int64](net.Forward(x).Argmax(-1))
	})
	return table, classes, err
}

func run(ctx context.Context, path string, epochs int, save string, o *data.TableOptions) error {
	if save != "" { // fail now rather than after the training
		if err := safetensors.Writable(save); err != nil {
			return err
		}
	}
	table, err := data.ReadCSVFile(path, o)
	if err != nil {
		return err
	}
	columns := len(table.Names)
	for c, texts := range table.Categories {
		if n := len(texts); n > table.Rows/2 {
			fmt.Printf("column %q has %d texts in %d rows; leave it out if each row has its own, as a name\n", table.Names[c], n, table.Rows)
		} else if n > 0 {
			fmt.Printf("column %q: %.200q are 0 to %d\n", table.Names[c], texts, n-1)
		}
	}
	if n := len(table.Classes); n > table.Rows/2 {
		fmt.Printf("column %q has %d classes in %d rows; if it is a number to predict, see the example ownmodel\n", table.Label, n, table.Rows)
	}
	// The rows in a random order, of which every fifth is held out.
	x, class := make([]float32, len(table.X)), make([]int64, table.Rows)
	order := data.NewOrder(table.Rows, 1)
	if err := data.FillRows(order, 0, table.X, x); err != nil {
		return err
	}
	if err := data.FillRows(order, 0, table.Class, class); err != nil {
		return err
	}
	train := table.Rows * 4 / 5
	if train < batch || train == table.Rows {
		return fmt.Errorf("%s has %d rows, expected at least %d", path, table.Rows, batch*5/4+1)
	}
	scale, err := data.ScaleOf(x[:train*columns], columns)
	if err != nil {
		return err
	}
	if err := scale.Apply(x); err != nil {
		return err
	}

	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	net := network(sess, columns, len(table.Classes))
	params := net.Params()
	opt := optim.NewAdamW(params, optim.AdamWOptions{LR: 3e-3, Decay: 0.01})
	fmt.Printf("%d rows, %d columns, classes %q, %d parameters\n", table.Rows, columns, table.Classes, nn.Count(params))

	steps := epochs * train / batch
	draw := data.NewOrder(train, 2)
	batchX, batchClass := make([]float32, batch*columns), make([]int64, batch)
	for step := range steps {
		at := uint64(step * batch)
		if err := data.FillRows(draw, at, x[:train*columns], batchX); err != nil {
			return err
		}
		if err := data.FillRows(draw, at, class[:train], batchClass); err != nil {
			return err
		}
		var loss *tensor.Tensor
		sess.Scope(func(sc *tensor.Scope) {
			logits := net.Forward(tensor.From(sess, batchX, batch, columns))
			loss = sc.Keep(nn.CrossEntropy(logits, tensor.From(sess, batchClass, batch)))
			var grads []*tensor.Tensor
			if grads, err = autograd.Grad(loss, nn.Tensors(params)...); err == nil {
				err = opt.Step(grads)
			}
		})
		if err != nil {
			return err
		}
		if step%(max(steps/5, 1)) == 0 { // the only wait for a value
			l, err := loss.Item()
			if err != nil {
				return err
			}
			fmt.Printf("step %4d of %d: loss %.3f\n", step, steps, l)
		} else if err := sess.Flush(); err != nil {
			return err
		}
		loss.Free()
	}

	held := table.Rows - train
	var right float64
	sess.NoGrad(func() {
		logits := net.Forward(tensor.From(sess, x[train*columns:], held, columns))
		hits := logits.Argmax(-1).Eq(tensor.From(sess, class[train:], held))
		right, err = hits.Cast(tensor.F32).Mean().Item()
	})
	if err != nil {
		return err
	}
	fmt.Printf("%.1f %% of %d other rows are right\n", 100*right, held)
	if save == "" {
		return nil
	}
	notes, err := json.Marshal(labels{table.Names, table.Classes, table.Label, table.Categories, table.Fill, scale})
	if err != nil {
		return err
	}
	return nn.Save(save, params, map[string]string{"labels": string(notes)})
}
