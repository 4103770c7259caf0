// Command tensorparallel is one program on two workers that share every matrix: the first
// layer is cut by columns, the second by rows, so that one all-reduce a step joins their
// halves. The program only gives names; the config places them.
//
//	go run .
//
// It starts a cluster in this process. With -addr it takes the workers of `ringside up`.
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
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// placement says where the tensors of the two signals lie.
const placement = `
workers: 2
columns: {shard: {axis: 1}}
rows: {shard: {axis: 0}}
`

func main() {
	addr := flag.String("addr", "", "a dispatcher with at least two workers")
	steps := flag.Int("steps", 100, "training steps")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "tensorparallel: %q, expected flags alone; -h lists them\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *steps); err != nil {
		fmt.Fprintln(os.Stderr, "tensorparallel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string, steps int) error {
	conf, err := config.Parse("placement", []byte(placement))
	if err != nil {
		return err
	}
	if addr == "" {
		c, err := cluster.Start(ctx, &cluster.Options{Workers: 2, InProcess: true})
		if err != nil {
			return err
		}
		defer c.Close()
		addr = c.Addr()
	}
	engine, err := client.Dial(ctx, addr, &client.Options{Config: conf})
	if err != nil {
		return err
	}
	sess := tensor.NewSession(engine, nil)
	defer sess.Close()

	var w1, w2 *tensor.Tensor
	sess.Signal("columns", func() { w1 = nn.Normal(sess, 0.2, 8, 64).RequireGrad() })
	sess.Signal("rows", func() { w2 = nn.Normal(sess, 0.2, 64, 1).RequireGrad() })
	opt := optim.NewAdamW([]tensor.Named{{Name: "w1", T: w1}, {Name: "w2", T: w2}}, optim.AdamWOptions{LR: 1e-2})
	var first, last float64
	for step := range steps {
		var loss *tensor.Tensor
		sess.Scope(func(sc *tensor.Scope) {
			x := tensor.RandN(sess, tensor.F32, 64, 8)
			y := x.Sin().Sum(1).Unsqueeze(1)
			loss = sc.Keep(nn.MSE(x.Matmul(w1).Tanh().Matmul(w2), y))
			var grads []*tensor.Tensor
			if grads, err = autograd.Grad(loss, w1, w2); err == nil {
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
	st := engine.Stats()
	fmt.Printf("loss %.3f, then %.3f; %d collectives, %d bytes sent by the busiest worker\n", first, last, st.Calls, st.Moved)
	return nil
}
