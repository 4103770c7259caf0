// Command ownmodel trains a network of its own by package train, which has the loop, the
// checkpoints and the evaluation. It predicts a number from two others: without an
// argument the product of their sines, of which it makes a table; otherwise the last
// column of a file of comma-separated values. It brings the columns to the same size
// first, for networks learn poorly otherwise. With -load it trains nothing, and says how
// weights of -save, or a checkpoint, do on rows that they were not trained on.
//
//	go run . -checkpoint run
//	go run . -steps 5000 -save model.safetensors mine.csv
//	go run . -load model.safetensors mine.csv
//
// Ctrl-C ends the training between two steps; with -checkpoint DIR the same command goes
// on from there, bit by bit. It runs in this process, or on a worker while `ringside up`
// runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	load := flag.String("load", "", "weights, or a checkpoint's folder, to evaluate instead of training")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	if *load != "" {
		err = evaluate(ctx, flag.Arg(0), *load)
	} else {
		err = run(ctx, flag.Arg(0), &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownmodel:", err)
		os.Exit(1)
	}
}

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
func load(path string) (*train.Table, error) {
	if path == "" {
		return train.SplitTable(sines(), "sines")
	}
	return train.LoadTable(path, &data.TableOptions{Regression: true})
}

// evaluate says how the weights do on the rows of the table at path that are held out.
// The weights know the scale of the table that they learnt from.
func evaluate(ctx context.Context, path, weights string) error {
	table, err := load(path)
	if err != nil {
		return err
	}
	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	e, err := model(len(table.Train.Names)).Evaluate(ctx, sess, table, weights)
	if err != nil {
		return err
	}
	fmt.Printf("a mean squared error of %.5f on %d rows of %s\n", e.HeldOut, table.Held.Rows, e.Data)
	return nil
}

func run(ctx context.Context, path string, o *train.Options) error {
	table, err := load(path)
	if err != nil {
		return err
	}
	// The scale is that of the rows to train on. The others get the same.
	scale, err := data.ScaleOf(table.Train.X, len(table.Train.Names))
	if err != nil {
		return err
	}
	if err := errors.Join(table.Train.ApplyScale(scale), table.Held.ApplyScale(scale)); err != nil {
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
	o.Progress = func(p train.Progress) {
		fmt.Printf("step %d of %d: mean squared error %.5f, %.0f %s a second\n", p.Step, p.Steps, p.Loss, p.Rate, p.Unit)
	}
	sum, err := model(len(table.Train.Names)).Train(ctx, sess, table, o)
	if err != nil {
		return err
	}
	if sum.Stopped {
		fmt.Printf("stopped after %d steps\n", sum.Steps)
		return nil
	}
	fmt.Printf("after %d steps a mean squared error of %.5f on rows that it has not seen\n", sum.Steps, sum.HeldOut)
	return nil
}
