// Command classifier trains a network on a table of comma-separated values, of which one
// column is the class: the last one, or that of -label. It says how often the network is
// right about rows that it did not see, and how often the most frequent class would be.
// Columns of texts become a column for each of their texts, which is 1 where a row has
// it; columns of numbers are brought to the same size, for networks learn poorly
// otherwise. -categories names columns whose numbers are texts, too, such as codes; -fill
// says what an empty field of a column of numbers becomes; -without leaves columns out.
// Without an argument it takes points.csv: two features, three classes.
//
// With -predict it prints the class of each row of another table, which has the same
// columns by name, by the weights that -save has saved. With -evaluate it says how often
// they are right about a table that has the class, too.
//
//	go run .
//	go run . -save model.safetensors mine.csv
//	go run . -label kind -fill mean -without name,date -save model.safetensors mine.csv
//	go run . -load model.safetensors -predict new.csv
//	go run . -load model.safetensors -evaluate test.csv
//
// It runs in this process, or on a worker while `ringside up` runs.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/safetensors"
	"github.com/ringside-go/ringside/tensor/train"
)

const (
	batch  = 32
	hidden = 64

	// epochs is the default. Of tables of 100 to 10,000 rows with noise, a network that
	// sees them 100 times is right about fewer other rows than one that sees them 5 to 20
	// times. points.csv needs 20.
	epochs = 20
)

// points is the table that is taken without an argument.
//
//go:embed points.csv
var points string

// maxEpochs bounds -epochs, so that the number of steps fits into 64 bits.
const maxEpochs = 1_000_000_000

// command is what the command line says.
type command struct {
	path        string // of the table; empty for the points
	epochs      int
	save        string
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
		err = data.CheckSave("-save", c.save)
	}
	if err == nil {
		switch {
		case c.rows != "":
			err = predict(ctx, out, c.load, c.rows, &c.TableOptions)
		case c.tests != "":
			err = evaluate(ctx, out, c.load, c.tests, &c.TableOptions)
		default:
			err = run(ctx, out, c.path, c.epochs, c.save, &c.TableOptions)
		}
	}
	if err != nil {
		fmt.Fprintln(errs, "classifier:", err)
		return status
	}
	return 0
}

// parse returns what the command line says, or an error for one that is wrong.
func parse(args []string, errs io.Writer) (*command, error) {
	c := &command{TableOptions: data.TableOptions{Categories: []string{data.AllTexts}, OneHot: true}}
	fs := flag.NewFlagSet("classifier", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.IntVar(&c.epochs, "epochs", epochs, "how often each row is seen; where more make the loss smaller and fewer other rows right, the network learns rows by heart")
	fs.StringVar(&c.save, "save", "", "safetensors file for the weights, whose folder is made if it is not there")
	fs.StringVar(&c.load, "load", "model.safetensors", "weights for -predict and -evaluate")
	fs.StringVar(&c.rows, "predict", "", "table of `rows` whose classes are printed, instead of training")
	fs.StringVar(&c.tests, "evaluate", "", "table of `rows` with their classes, of which the share that is right is printed, instead of training")
	c.AddFlags(fs)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: classifier [flags] [table.csv]\nWithout a table it takes points.csv, which is part of the program. Flags:")
		fs.PrintDefaults()
	}
	var err error
	if c.path, err = data.ParseTable(fs, args); err != nil {
		return nil, err
	}
	switch {
	case c.epochs < 1:
		return nil, fmt.Errorf("-epochs %d: expected 1 or more", c.epochs)
	case c.epochs > maxEpochs:
		return nil, fmt.Errorf("-epochs %d: expected at most %d", c.epochs, maxEpochs)
	}
	return c, idle(fs, c.path)
}

// idle returns an error for a flag, or the table at path, that has no effect beside the
// others.
func idle(fs *flag.FlagSet, path string) error {
	predicts, evaluates := given(fs, "predict"), given(fs, "evaluate")
	trains := !predicts && !evaluates
	// The weights keep what these say of the table.
	training := []string{"-epochs", "-save", "-categories", "-fill", "-without", "table"}
	return data.CheckIdle(fs, path,
		data.Idle{Case: predicts, When: "beside -predict", Flags: append(training, "-evaluate", "-label")},
		data.Idle{Case: evaluates, When: "beside -evaluate", Flags: training},
		data.Idle{Case: trains, When: "without -predict or -evaluate", Flags: []string{"-load"}},
		data.Idle{Case: trains && path == "", When: "without a table", Flags: []string{"-fill", "-comma"}})
}

// given reports whether a flag has a value.
func given(fs *flag.FlagSet, name string) bool { return fs.Lookup(name).Value.String() != "" }

// network returns the model: as many numbers as there are classes, the largest of which
// is that of the row's class.
func network(sess *tensor.Session, columns, classes int) nn.Sequential {
	return nn.Sequential{
		nn.NewLinear(sess, columns, hidden, true), nn.ReLU(),
		nn.NewLinear(sess, hidden, hidden, true), nn.ReLU(),
		nn.NewLinear(sess, hidden, classes, true),
	}
}

// predict prints the class of each row of the table at path.
func predict(ctx context.Context, out io.Writer, weights, path string, o *data.TableOptions) error {
	of := *o
	of.NoLabel = true
	_, form, classes, err := judge(ctx, weights, path, &of)
	if err != nil {
		return err
	}
	for _, c := range classes {
		if _, err := fmt.Fprintln(out, form.Classes[c]); err != nil {
			return err
		}
	}
	return nil
}

// evaluate prints how many rows of the table at path the weights are right about.
func evaluate(ctx context.Context, out io.Writer, weights, path string, o *data.TableOptions) error {
	table, _, classes, err := judge(ctx, weights, path, o)
	if err != nil {
		return err
	}
	right := 0
	for i, c := range classes {
		if c == table.Class[i] {
			right++
		}
	}
	_, err = fmt.Fprintln(out, score(right, table, "", most(table)))
	return err
}

// most returns the class that most rows of t have, the first of several.
func most(t *data.Table) int {
	counts := t.ClassCounts()
	return slices.Index(counts, slices.Max(counts))
}

// score says how many rows of t are right, and how many would be if all had the class
// always. kind is "", or "other " for rows that the network did not learn from.
func score(right int, t *data.Table, kind string, always int) string {
	share := func(n int) float64 { return 100 * float64(n) / float64(t.Rows) }
	are := "are"
	if t.Rows == 1 {
		are = "is"
	}
	return fmt.Sprintf("%.1f %% of %s %s right; always saying %.40q would be right for %.1f %%",
		share(right), plain.Count(t.Rows, kind+"row"), are, t.Classes[always], share(t.ClassCounts()[always]))
}

// judge returns the table at path in the form of that which the weights learnt from, that
// form, and for each row the class that the weights say.
func judge(ctx context.Context, weights, path string, o *data.TableOptions) (table, form *data.Table, classes []int64, err error) {
	form, err = train.FormOf(weights)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; -save writes weights, and -load names them", err)
	} else if err == nil && len(form.Classes) == 0 {
		err = fmt.Errorf("%s has weights of a number, expected those of classes; the example ownmodel takes them", weights)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	// the form has its own
	o.Like, o.Categories, o.OneHot, o.Fill, o.Without = form, nil, false, nil, nil
	if table, err = data.ReadCSVFile(path, o); err != nil {
		return nil, nil, nil, err
	}
	ctx, stop := signalled(ctx)
	defer stop()
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	defer sess.Close()
	net := network(sess, len(form.Names), len(form.Classes))
	if _, err := nn.Load(weights, net.Params(), nil); err != nil {
		return nil, nil, nil, err
	}
	sess.NoGrad(func() {
		x := tensor.From(sess, table.X, table.Rows, len(table.Names))
		classes, err = tensor.Data[int64](net.Forward(x).Argmax(-1))
	})
	return table, form, classes, err
}

// read reads the table at path, or the points, and prints what it is. It returns four
// fifths of the rows to train on and the others, both with columns of about the same
// size.
func read(out io.Writer, path string, o *data.TableOptions) (rows, held *data.Table, err error) {
	name, table := path, (*data.Table)(nil)
	if path == "" {
		name = "points.csv"
		table, err = data.ReadCSV(strings.NewReader(points), name, o)
	} else {
		table, err = data.ReadCSVFile(path, o)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := differ(name, table, ""); err != nil {
		return nil, nil, err
	}
	if table.Rows*4/5 < batch {
		return nil, nil, fmt.Errorf("%q: the number of rows is %d, expected at least %d", name, table.Rows, batch*5/4)
	}
	if rows, held, err = table.Split(table.Rows - table.Rows*4/5); err != nil {
		return nil, nil, err
	}
	if err := differ(name, rows, " to train on"); err != nil {
		return nil, nil, err
	}
	scale, err := rows.NumberScale()
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(rows.ApplyScale(scale), held.ApplyScale(scale)); err != nil {
		return nil, nil, err
	}
	_, err = fmt.Fprintln(out, table)
	return rows, held, err
}

// differ returns an error if all rows of t have the same class: then there is nothing to
// learn. purpose is "", or " to train on".
func differ(name string, t *data.Table, purpose string) error {
	class := most(t)
	if t.ClassCounts()[class] != t.Rows {
		return nil
	}
	say := fmt.Sprintf("all %s%s say", plain.Count(t.Rows, "row"), purpose)
	if t.Rows == 1 {
		say = "its only row says"
	}
	return fmt.Errorf("%q: label %.40q: %s %.40q, expected two values or more; add rows of another class, or name another label (-label)",
		name, t.Label, say, t.Classes[class])
}

func run(ctx context.Context, out io.Writer, path string, epochs int, save string, o *data.TableOptions) error {
	rows, held, err := read(out, path, o)
	if err != nil {
		return err
	}
	ctx, stop := signalled(ctx)
	defer stop()
	if save != "" { // fail now rather than after the training
		if err := os.MkdirAll(filepath.Dir(save), 0o755); err != nil {
			return fmt.Errorf("-save %q: its folder: %w", save, err)
		}
		if err := safetensors.Writable(save); err != nil {
			return err
		}
	}
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	columns := len(rows.Names)
	net := network(sess, columns, len(rows.Classes))
	params := net.Params()
	opt := optim.NewAdamW(params, optim.AdamWOptions{LR: 3e-3, Decay: 0.01})
	if _, err := fmt.Fprintf(out, "a network of %s on %s: %s to train on, %s to judge it by\n", plain.Count(nn.Count(params), "parameter"),
		sess.Engine().Name(), plain.Count(rows.Rows, "row"), plain.Count(held.Rows, "other")); err != nil {
		return err
	}

	steps := epochs * rows.Rows / batch
	draw := data.NewOrder(rows.Rows, 2)
	batchX, batchClass := make([]float32, batch*columns), make([]int64, batch)
	for step := range steps {
		at := uint64(step * batch)
		if err := errors.Join(data.FillRows(draw, at, rows.X, batchX), data.FillRows(draw, at, rows.Class, batchClass)); err != nil {
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
			// If it can't be printed, neither can the score, which ends with an error.
			_, _ = fmt.Fprintf(out, "step %4d of %d: loss %.3f\n", step, steps, l)
		} else if err := sess.Flush(); err != nil { // it runs beside the next one
			return err
		}
		loss.Free()
	}

	right := 0
	sess.NoGrad(func() {
		logits := net.Forward(tensor.From(sess, held.X, held.Rows, columns))
		hits := logits.Argmax(-1).Eq(tensor.From(sess, held.Class, held.Rows))
		var n float64
		n, err = hits.Cast(tensor.F32).Sum().Item()
		right = int(n)
	})
	if err != nil {
		return err
	}
	_, errOut := fmt.Fprintln(out, score(right, held, "other ", most(rows)))
	if save == "" {
		return errOut
	}
	form, err := json.Marshal(rows.Form())
	if err != nil {
		return err
	}
	if err := nn.Save(save, params, map[string]string{"table": string(form)}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "saved %q\n", save)
	return cmp.Or(errOut, err) // the weights are saved in any case
}
