package client_test

import (
	"context"
	"fmt"

	"github.com/ringside-go/ringside/ipc/client"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
)

// A line is fitted to four points by gradient descent, on the dispatcher of this user if one runs, else in this
// process. Each step is one message; the loss is read once, at the end.
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
