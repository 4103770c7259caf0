// Command classifier trains a network on a table of comma-separated values, whose last
// column is the class, and says how often it is right about rows that it did not see.
// Without an argument it takes points.csv: two features, three classes. A program that
// predicts makes the same network, has nn.Load read the saved weights into it, and takes
// Forward(x).Argmax(-1), the number of the class in the order that is printed.
//
//	go run .
//	go run . -epochs 300 -save model.safetensors mine.csv
//
// It runs in this process, or on a worker while `ringside up` runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

const (
	batch  = 32
	hidden = 64
)

func main() {
	epochs := flag.Int("epochs", 100, "how often each row is seen")
	save := flag.String("save", "", "safetensors file for the weights")
	flag.Parse()
	path := "points.csv"
	if flag.NArg() > 0 {
		path = flag.Arg(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, path, *epochs, *save); err != nil {
		fmt.Fprintln(os.Stderr, "classifier:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, epochs int, save string) error {
	table, err := data.ReadCSVFile(path, nil)
	if err != nil {
		return err
	}
	columns := len(table.Names)
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

	sess, err := client.Open(ctx, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	net := nn.Sequential{
		nn.NewLinear(sess, columns, hidden, true), nn.ReLU(),
		nn.NewLinear(sess, hidden, hidden, true), nn.ReLU(),
		nn.NewLinear(sess, hidden, len(table.Classes), true),
	}
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
	return nn.Save(save, params, nil)
}
