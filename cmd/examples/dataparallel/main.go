// Command dataparallel is the ranks of a training run without a dispatcher: each computes
// the gradients of its own rows in a session of its own, and all take their mean.
//
//	go build && ringside run -n 4 -- ./dataparallel
//
// mpirun, torchrun and srun start it as well (docs/launch.md), on several hosts too.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/spmd"
)

const (
	steps = 200
	rows  = 64 // of a batch, on all ranks together
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dataparallel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	g, err := collective.Init(ctx, nil)
	if err != nil {
		return err
	}
	defer g.Close()
	if rows%g.Size() != 0 {
		return fmt.Errorf("%d ranks do not divide %d rows", g.Size(), rows)
	}
	sess, err := cpu.NewSession(nil, nil)
	if err != nil {
		return err
	}
	defer sess.Close()
	// The sessions have the same seed, so all ranks begin with the same weights.
	net := nn.Sequential{nn.NewLinear(sess, 2, 32, true), nn.GELU(), nn.NewLinear(sess, 32, 1, true)}
	params := net.Params()
	opt := optim.NewAdamW(params, optim.AdamWOptions{LR: 1e-2})
	mine := rows / g.Size()
	from := g.Rank() * mine
	var first, last float64
	for step := range steps {
		var loss *tensor.Tensor
		sess.Scope(func(sc *tensor.Scope) {
			// Every rank draws the whole batch and takes its rows of it.
			x := tensor.RandN(sess, tensor.F32, rows, 2).Narrow(0, from, mine)
			y := x.Sin().Sum(1).Unsqueeze(1)
			loss = sc.Keep(nn.MSE(net.Forward(x), y))
			var grads []*tensor.Tensor
			if grads, err = autograd.Grad(loss, nn.Tensors(params)...); err != nil {
				return
			}
			if err = spmd.AllReduce(ctx, g, collective.Mean, grads...); err == nil {
				err = opt.Step(grads)
			}
		})
		if err != nil {
			return err
		}
		if step == 0 || step == steps-1 {
			if last, err = loss.Item(); err != nil {
				return err
			}
			if step == 0 {
				first = last
			}
		}
		loss.Free()
	}
	// The weights are the same on all ranks, so their sums are.
	var sum float64
	for _, p := range params {
		v, err := p.T.Sum().Item()
		if err != nil {
			return err
		}
		sum += v
	}
	sums, err := collective.AllGatherObject(ctx, g, sum)
	if err != nil {
		return err
	}
	for r, v := range sums {
		if v != sum {
			return fmt.Errorf("rank %d has other weights than rank %d: their sums are %v and %v", r, g.Rank(), v, sum)
		}
	}
	fmt.Printf("rank %d of %d: loss of its rows %.3f, then %.3f; the same weights on all ranks\n", g.Rank(), g.Size(), first, last)
	return nil
}
