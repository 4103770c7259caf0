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
	"slices"
	"syscall"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/train"
)

// maxSteps bounds -steps, so that the number of rows that they see fits into 64 bits.
const maxSteps = 1_000_000_000

// command is what the command line says.
type command struct {
	path        string // of the table; empty for the sines
	train       train.Options
	load        string
	rows, tests string // -predict and -evaluate
	data.TableOptions
}

func main() {
	os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// signalled returns a context that Ctrl-C ends, until stop is called. Before, while a
// table is read, Ctrl-C ends the process: the file may be a pipe that nothing comes from.
func signalled(ctx context.Context) (ending context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// start runs the command line and returns the exit status: 2 for one that is wrong.
func start(ctx context.Context, args []string, out, errs io.Writer) int {
	c, err := parse(args, errs)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	status := 2
	if err == nil {
		status = 1
		err = data.CheckSave("-save", c.train.Save)
	}
	if err == nil {
		switch weights := cmp.Or(c.load, "model.safetensors"); {
		case c.rows != "":
			err = predict(ctx, out, c.rows, weights, &c.TableOptions)
		case c.tests != "":
			err = evaluate(ctx, out, c.tests, weights, true, &c.TableOptions)
		case c.load != "":
			err = evaluate(ctx, out, c.path, weights, false, &c.TableOptions)
		default:
			err = run(ctx, out, c.path, &c.train, &c.TableOptions)
		}
	}
	if err != nil {
		fmt.Fprintln(errs, "ownmodel:", err)
		return status
	}
	return 0
}

// parse returns what the command line says, or an error for one that is wrong.
func parse(args []string, errs io.Writer) (*command, error) {
	c := &command{
		train:        train.Options{LossEvery: 100},
		TableOptions: data.TableOptions{Regression: true, Categories: []string{data.AllTexts}, OneHot: true},
	}
	fs := flag.NewFlagSet("ownmodel", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.IntVar(&c.train.Steps, "steps", 1000, "optimizer steps")
	fs.StringVar(&c.train.Checkpoint, "checkpoint", "", "folder in which the run is kept, and from which it goes on")
	fs.StringVar(&c.train.Save, "save", "", "safetensors file for the weights, whose folder is made if it is not there")
	fs.StringVar(&c.load, "load", "", "weights, or a checkpoint's folder, to evaluate instead of training; of -predict and -evaluate model.safetensors if not given")
	fs.StringVar(&c.rows, "predict", "", "table of `rows` whose numbers are printed, instead of training")
	fs.StringVar(&c.tests, "evaluate", "", "table of `rows` with their numbers, on which the weights are judged, instead of training")
	c.AddFlags(fs)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: ownmodel [flags] [table.csv]\nWithout a table it learns the product of the sines of two numbers. Flags:")
		fs.PrintDefaults()
	}
	var err error
	if c.path, err = data.ParseTable(fs, args); err != nil {
		return nil, err
	}
	switch {
	case c.train.Steps < 1:
		return nil, fmt.Errorf("-steps %d: expected 1 or more", c.train.Steps)
	case c.train.Steps > maxSteps:
		return nil, fmt.Errorf("-steps %d: expected at most %d", c.train.Steps, maxSteps)
	}
	return c, idle(fs, c.path)
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

// load returns the table at path, as a whole and with every fifth row held out.
func load(path string, of *data.TableOptions) (whole *data.Table, split *train.Table, err error) {
	if path == "" {
		whole, path = sines(), "sines"
	} else if whole, err = data.ReadCSVFile(path, of); err != nil {
		return nil, nil, err
	}
	split, err = train.SplitTable(whole, path)
	return whole, split, err
}

// differ returns an error if the label has the same number in all rows, or in all of them
// to train on: then there is nothing to learn.
func differ(whole *data.Table, split *train.Table) error {
	of, purpose := whole, ""
	if slices.Min(of.Target) != slices.Max(of.Target) {
		of, purpose = split.Train, " to train on"
	}
	if slices.Min(of.Target) != slices.Max(of.Target) {
		return nil
	}
	say := fmt.Sprintf("all %s%s say", plain.Count(of.Rows, "row"), purpose)
	if of.Rows == 1 {
		say = "its only row says"
	}
	return fmt.Errorf("%q: label %.40q: %s %v, expected two values or more; add rows with another number, or name another label (-label)",
		split.From, of.Label, say, of.Target[0])
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
	ctx, stop := signalled(ctx)
	defer stop()
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
		_, table, err = load(path, o)
	} else if rows, errRead := data.ReadCSVFile(path, o); errRead == nil {
		table = &train.Table{Train: rows, Held: rows, From: path}
	} else {
		err = errRead
	}
	if err != nil {
		return err
	}
	ctx, stop := signalled(ctx)
	defer stop()
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	e, err := model(len(form.Names)).Evaluate(ctx, sess, table, weights)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "on %s of %s %s\n", plain.Count(table.Held.Rows, "row"), e.Data, off(form.Label, e.HeldOut, e.Explained))
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
	whole, table, err := load(path, of)
	if err != nil {
		return err
	}
	if err := differ(whole, table); err != nil {
		return err
	}
	ctx, stop := signalled(ctx)
	defer stop()
	if _, err := fmt.Fprintln(out, whole); err != nil {
		return err
	}
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
	if _, err := fmt.Fprintf(out, "it trains on %s: %s to train on, %s to judge it by\n", sess.Engine().Name(),
		plain.Count(table.Train.Rows, "row"), plain.Count(table.Held.Rows, "other")); err != nil {
		return err
	}
	// The loss is in squares of the deviation.
	deviation := float64(table.Train.TargetScale.Deviation[0])
	o.Progress = func(p train.Progress) {
		// If it can't be printed, neither can the result, which ends with an error.
		_, _ = fmt.Fprintf(out, "step %d of %d: %q is off by %.6g in this step's rows, %.0f %s a second\n",
			p.Step, p.Steps, table.Train.Label, math.Sqrt(p.Loss)*deviation, p.Rate, p.Unit)
	}
	sum, err := model(len(table.Train.Names)).Train(ctx, sess, table, o)
	if err != nil {
		return err
	}
	if sum.Stopped {
		_, err = fmt.Fprintf(out, "stopped after %s\n", plain.Count(sum.Steps, "step"))
	} else {
		_, err = fmt.Fprintf(out, "after %s, on %s that it has not seen, %s\n", plain.Count(sum.Steps, "step"), plain.Count(table.Held.Rows, "row"), off(table.Train.Label, sum.HeldOut, sum.Explained))
	}
	if err != nil {
		return err
	}
	for _, path := range []string{o.Save, sum.Checkpoint} {
		if path != "" {
			if _, err := fmt.Fprintf(out, "saved %q\n", path); err != nil {
				return err
			}
		}
	}
	return nil
}
