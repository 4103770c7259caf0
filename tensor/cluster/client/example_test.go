package client_test

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// A line is fitted to four points by gradient descent, on the dispatcher of this user if
// one runs, else in this process. Each step is one message; the loss is read once, at the
// end.
func Example() {
	sess, err := client.Open(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()

	x := tensor.From(sess, []float32{0, 1, 2, 3}, 4, 1)
	y := tensor.From(sess, []float32{1, 3, 5, 7}, 4, 1)
	w := tensor.Zeros(sess, tensor.F32, 1, 1).RequireGrad()
	b := tensor.Zeros(sess, tensor.F32, 1).RequireGrad()
	for range 300 {
		sess.Scope(func(*tensor.Scope) {
			loss := x.Matmul(w).Add(b).Sub(y).Square().Mean()
			var grads []*tensor.Tensor
			if grads, err = autograd.Grad(loss, w, b); err != nil {
				return
			}
			sess.NoGrad(func() {
				w.SubAssign(grads[0].MulS(0.1))
				b.SubAssign(grads[1].MulS(0.1))
			})
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	slope, err := w.Item()
	if err != nil {
		fmt.Println(err)
		return
	}
	offset, err := b.Item()
	fmt.Printf("%.2f x + %.2f, %v\n", slope, offset, err)
	// Output: 2.00 x + 1.00, <nil>
}

// A network learns a made-up function by AdamW. A step is of four batches whose gradients
// are added up (autograd.Accumulate), and of the hidden layers only what lies between
// them is kept for the backward pass (nn.Recompute): both are for models and batches that
// need more memory than there is. Losses are read every 100 steps; no other step is
// waited for.
func Example_training() {
	sess, err := client.Open(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sess.Close()

	net := nn.Sequential{
		nn.Recompute(nn.Sequential{nn.NewLinear(sess, 2, 32, true), nn.GELU()}),
		nn.Recompute(nn.Sequential{nn.NewLinear(sess, 32, 32, true), nn.GELU()}),
		nn.NewLinear(sess, 32, 1, true),
	}
	opt := optim.NewAdamW(net.Params(), optim.AdamWOptions{LR: 3e-3})
	const steps, batches = 300, 4
	var losses []float64
	for step := range steps {
		var loss *tensor.Tensor
		for range batches {
			sess.Scope(func(sc *tensor.Scope) {
				x := tensor.RandN(sess, tensor.F32, 16, 2)
				y := x.Sin().Sum(1).Unsqueeze(1)
				loss = sc.Keep(nn.MSE(net.Forward(x), y))
				err = autograd.Accumulate(loss, batches)
			})
			if err == nil {
				// one program a batch, so that only one batch's values are there at a
				// time
				err = sess.Flush()
			}
			if err != nil {
				fmt.Println(err)
				return
			}
		}
		// nil: the gradients that lie with the parameters
		if err := opt.Step(nil); err != nil {
			fmt.Println(err)
			return
		}
		opt.ZeroGrad()
		if step%100 != 0 && step != steps-1 {
			continue
		}
		l, err := loss.Item()
		if err != nil {
			fmt.Println(err)
			return
		}
		losses = append(losses, l)
	}
	fmt.Println(len(losses), losses[len(losses)-1] < losses[0]/10)
	// Output: 4 true
}
