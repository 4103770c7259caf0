package autograd_test

import (
	"context"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// kept keeps the last program.
type kept struct {
	tensor.Engine
	last *tensor.Program
}

func (k *kept) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		k.last = b.Program.Clone()
	}
	return k.Engine.Submit(ctx, b)
}

// TestBackwardSignals: a gradient operation has the backward signal of its forward
// operation, wherever the gradient is requested.
func TestBackwardSignals(t *testing.T) {
	k := &kept{Engine: enginetest.Reference()}
	s := tensor.NewSession(k, nil)
	x, w, v := tensor.Ones(s, tensor.F32, 2, 3), tensor.Ones(s, tensor.F32, 3, 4).RequireGrad(), tensor.Ones(s, tensor.F32, 4, 5).RequireGrad()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	var h, loss *tensor.Tensor
	s.Signal("first", func() { h = x.Matmul(w).Tanh() })
	s.Signal("second", func() { loss = h.Matmul(v).Exp() })
	loss = loss.Sum()
	var grads []*tensor.Tensor
	s.Signal("elsewhere", func() {
		var err error
		if grads, err = autograd.Grad(loss, w, v); err != nil {
			t.Fatal(err)
		}
	})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	products, order := map[tensor.Signal]int{}, []tensor.Signal{}
	for i, in := range k.last.Instrs {
		g, _ := k.last.SignalOf(tensor.Ref(i))
		if in.Op == tensor.OpMatmul {
			products[g]++
		}
		if len(order) == 0 || order[len(order)-1] != g {
			order = append(order, g)
		}
	}
	back := func(n string) tensor.Signal { return tensor.Signal{Name: n, Backward: true} }
	if products[back("second")] != 2 || products[back("first")] != 1 || products[tensor.Signal{Name: "first"}] != 1 || products[tensor.Signal{Name: "second"}] != 1 {
		t.Errorf("products by signal: %v, expected one of each layer and its gradients\n%v", products, k.last)
	}
	// The sum was recorded outside a signal; its gradient has the signal where it was
	// requested.
	want := []tensor.Signal{{Name: "first"}, {Name: "second"}, {}, {Name: "elsewhere"}, back("second"), back("first")}
	if len(order) != len(want) {
		t.Fatalf("stretches %v, expected %v\n%v", order, want, k.last)
	}
	for i := range want {
		if order[i] != want[i] {
			t.Errorf("stretch %d is %v, expected %v", i, order[i], want[i])
		}
	}
	if len(grads) != 2 {
		t.Fatalf("%d gradients", len(grads))
	}
}

// TestNamedGradient: the gradient of a named result has the backward signal of that name.
// The gradient of a leaf, and that of the loss itself, which is given, have none.
func TestNamedGradient(t *testing.T) {
	k := &kept{Engine: enginetest.Reference()}
	s := tensor.NewSession(k, nil)
	defer s.Close()
	w := tensor.Full(s, tensor.F32, 0.5, 4, 4).RequireGrad().Signal("w")
	x := tensor.Full(s, tensor.F32, 1, 2, 4)
	h := x.Matmul(w).Tanh().Signal("h")
	loss := h.Exp().Sum().Signal("loss")
	g, err := autograd.Grad(loss, w)
	if err != nil {
		t.Fatal(err)
	}
	if err := g[0].Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := tensor.Data[float32](g[0]); err != nil {
		t.Fatal(err)
	}
	names := map[tensor.Signal]int{}
	for i := range k.last.Instrs {
		if g, ok := k.last.NameOf(i); ok {
			names[g]++
			_, shape := k.last.TypeOf(tensor.Ref(i))
			if g.Backward && (g.Name != "h" || !shape.Equal(tensor.Shape{2, 4})) {
				t.Errorf("%%%d %v is %v", i, shape, g)
			}
		}
	}
	if names[tensor.Signal{Name: "h", Backward: true}] != 1 || names[tensor.Signal{Name: "h"}] != 1 {
		t.Errorf("named are %v", names)
	}
}
