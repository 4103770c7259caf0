// Command ownmodel trains a network of its own by package train, which has the loop, the
// checkpoints and the evaluation. It predicts a number: the last column of a file of
// comma-separated values, or that of -label; without an argument the product of the sines
// of two numbers, of which it makes a table. Columns of texts become a column for each of
// their texts; columns of numbers and the number to predict are brought to the same size,
// for networks learn poorly otherwise. -categories names columns whose numbers are texts,
// too; -fill says what an empty field of a column of numbers becomes; -without leaves
// columns out.
//
// With -predict it prints the number for each row of another table by the weights that
// -save has saved, or by a checkpoint. With -evaluate it says how these do on all rows of
// a table that has the number, and with -load and a table how they do on the rows of it
// that a training holds out.
//
//	go run . -checkpoint run
//	go run . -steps 5000 -save model.safetensors mine.csv
//	go run . -load model.safetensors -predict new.csv
//	go run . -load model.safetensors -evaluate test.csv
//	go run . -load model.safetensors mine.csv
//
// Ctrl-C ends the training between two steps; with -checkpoint DIR the same command goes
// on from there, bit by bit. It runs in this process, or on a worker while `ringside up`
// runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/train"
)

func main() {
	o := train.Options{LossEvery: 100}
	flag.IntVar(&o.Steps, "steps", 1000, "optimizer steps")
	flag.StringVar(&o.Checkpoint, "checkpoint", "", "folder in which the run is kept, and from which it goes on")
	flag.StringVar(&o.Save, "save", "", "safetensors file for the weights")
	load := flag.String("load", "", "weights, or a checkpoint's folder, to evaluate instead of training; of -predict and -evaluate model.safetensors if not given")
	rows := flag.String("predict", "", "table of `rows` whose numbers are printed, instead of training")
	tests := flag.String("evaluate", "", "table of `rows` with their numbers, on which the weights are judged, instead of training")
	of := data.TableOptions{Regression: true, Categories: []string{data.AllTexts}, OneHot: true}
	of.AddFlags(flag.CommandLine)
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: ownmodel [flags] [table.csv]\nWithout a table it learns the product of the sines of two numbers. Flags:")
		flag.PrintDefaults()
	}
	path, err := data.ParseTable(flag.CommandLine, os.Args[1:])
	if err == nil {
		err = idle(flag.CommandLine, path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownmodel:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch weights := cmp.Or(*load, "model.safetensors"); {
	case *rows != "":
		err = predict(ctx, os.Stdout, *rows, weights, &of)
	case *tests != "":
		err = evaluate(ctx, os.Stdout, *tests, weights, true, &of)
	case *load != "":
		err = evaluate(ctx, os.Stdout, path, weights, false, &of)
	default:
		err = run(ctx, os.Stdout, path, &o, &of)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownmodel:", err)
		os.Exit(1)
	}
}

// idle returns an error for a flag, or the table at path, that has no effect beside the
// others.
func idle(fs *flag.FlagSet, path string) error {
	predicts, evaluates, loads := given(fs, "predict"), given(fs, "evaluate"), given(fs, "load")
	// The weights keep what these say of the table.
	training := []string{"-steps", "-checkpoint", "-save", "-categories", "-fill", "-without"}
	return data.CheckIdle(fs, path,
		data.Idle{Case: predicts, When: "beside -predict", Flags: append(training, "table", "-evaluate", "-label")},
		data.Idle{Case: evaluates, When: "beside -evaluate", Flags: append(training, "table")},
		data.Idle{Case: loads, When: "beside -load", Flags: training},
		data.Idle{Case: !predicts && !evaluates && path == "", When: "without a table", Flags: []string{"-label", "-fill", "-comma"}})
}

// given reports whether a flag has a value.
func given(fs *flag.FlagSet, name string) bool { return fs.Lookup(name).Value.String() != "" }

// model returns a network that computes a number from a row of so many columns.
func model(columns int) *train.Model {
	return &train.Model{
		Name:     "sines",
		Data:     "table",
		Defaults: train.Options{Batch: 64, LR: 5e-3, Warmup: 50},
		Build: func(s *tensor.Session) (nn.Layer, error) {
			return nn.Sequential{
				nn.NewLinear(s, columns, 64, true), nn.GELU(),
				nn.NewLinear(s, 64, 64, true), nn.GELU(),
				nn.NewLinear(s, 64, 1, true),
			}, nil
		},
	}
}

// sines makes a table of sin x sin y.
func sines() *data.Table {
	const side = 64
	t := &data.Table{Names: []string{"x", "y"}, Label: "sin x sin y", Rows: side * side}
	for i := range t.Rows {
		x, y := float64(i%side)/10-3.2, float64(i/side)/10-3.2
		t.X = append(t.X, float32(x), float32(y))
		t.Target = append(t.Target, float32(math.Sin(x)*math.Sin(y)))
	}
	return t
}

// load returns the table at path, of which every fifth row is held out.
func load(path string, of *data.TableOptions) (*train.Table, error) {
	if path == "" {
		return train.SplitTable(sines(), "sines")
	}
	return train.LoadTable(path, of)
}

// like returns the form of the table that the weights learnt from, and options for other
// rows of this form.
func like(weights string, of *data.TableOptions) (*data.Table, *data.TableOptions, error) {
	form, err := train.FormOf(weights)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; -save writes weights, and -load names them", err)
	} else if err == nil && form.Target == nil {
		err = fmt.Errorf("%s has weights that name classes, expected those of a number; the example classifier takes them", weights)
	}
	if err != nil {
		return nil, nil, err
	}
	o := *of
	// the form has its own
	o.Like, o.Categories, o.OneHot, o.Fill, o.Without = form, nil, false, nil, nil
	return form, &o, nil
}

// predict prints what the weights say of each row of the table at path.
func predict(ctx context.Context, out io.Writer, path, weights string, of *data.TableOptions) error {
	form, o, err := like(weights, of)
	if err != nil {
		return err
	}
	o.NoLabel = true
	table, err := data.ReadCSVFile(path, o)
	if err != nil {
		return err
	}
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	numbers, err := model(len(form.Names)).Predict(ctx, sess, table, weights)
	if err != nil {
		return err
	}
	for _, x := range numbers {
		if _, err := fmt.Fprintln(out, x); err != nil {
			return err
		}
	}
	return nil
}

// evaluate says how the weights do on the table at path: on all its rows, or on those
// that a training holds out.
func evaluate(ctx context.Context, out io.Writer, path, weights string, all bool, of *data.TableOptions) error {
	form, o, err := like(weights, of)
	if err != nil {
		return err
	}
	var table *train.Table
	if !all {
		table, err = load(path, o)
	} else if rows, errRead := data.ReadCSVFile(path, o); errRead == nil {
		table = &train.Table{Train: rows, Held: rows, From: path}
	} else {
		err = errRead
	}
	if err != nil {
		return err
	}
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	e, err := model(len(form.Names)).Evaluate(ctx, sess, table, weights)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "on %d rows of %s %s\n", table.Held.Rows, e.Data, off(form.Label, e.HeldOut, e.Explained))
	return err
}

// off says by how much predictions of such a mean squared error are off.
func off(label string, loss float64, explained *float64) string {
	text := fmt.Sprintf("%q is off by %.6g (root of the mean square)", label, math.Sqrt(loss))
	switch {
	case explained == nil:
		return text
	case *explained < 0:
		return text + ", more than its mean would be: more -steps may help, or columns that say more about it"
	}
	return fmt.Sprintf("%s: this explains %.1f %% of its variance", text, 100**explained)
}

func run(ctx context.Context, out io.Writer, path string, o *train.Options, of *data.TableOptions) error {
	table, err := load(path, of)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, table.Train)
	if err := table.Standardize(); err != nil {
		return err
	}
	if o.Checkpoint != "" {
		o.Every = 500
		kept, err := checkpoint.Open(o.Checkpoint)
		if err == nil {
			o.Resume = o.Checkpoint
			err = kept.Close()
		} else if errors.Is(err, checkpoint.ErrNone) {
			err = nil // the run is new
		}
		if err != nil {
			return err
		}
	}
	// The session has a context of its own: ctx ends the training between two steps.
	sess, err := client.Open(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	fmt.Fprintf(out, "it trains on %s\n", sess.Engine().Name())
	o.Progress = func(p train.Progress) {
		fmt.Fprintf(out, "step %d of %d: loss %.5f, %.0f %s a second\n", p.Step, p.Steps, p.Loss, p.Rate, p.Unit)
	}
	sum, err := model(len(table.Train.Names)).Train(ctx, sess, table, o)
	if err != nil {
		return err
	}
	if sum.Stopped {
		fmt.Fprintf(out, "stopped after %d steps\n", sum.Steps)
	} else {
		fmt.Fprintf(out, "after %d steps, on %d rows that it has not seen, %s\n", sum.Steps, table.Held.Rows, off(table.Train.Label, sum.HeldOut, sum.Explained))
	}
	for _, path := range []string{o.Save, sum.Checkpoint} {
		if path != "" {
			fmt.Fprintf(out, "saved %q\n", path)
		}
	}
	return nil
}
