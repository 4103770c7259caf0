package cluster_test

import (
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	models "github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/optim"
)

// trainModel takes steps of a small transformer or classifier with AdamW, and returns the
// losses.
func trainModel(t *testing.T, s *tensor.Session, transformer bool, steps int) []float64 {
	t.Helper()
	s.Seed(7)
	const batch, length = 2, 32
	var params []tensor.Named
	var loss func(n string) *tensor.Tensor
	if transformer {
		m, err := models.NewQwen3(s, models.Qwen3Tiny())
		if err != nil {
			t.Fatal(err)
		}
		x, y := make([]int32, batch*length), make([]int32, batch*length)
		params = m.Params()
		loss = func(n string) *tensor.Tensor {
			data.FillIndices(x, n+" x", uint64(m.Config.Vocab))
			data.FillIndices(y, n+" y", uint64(m.Config.Vocab))
			return m.Loss(tensor.From(s, x, batch, length), tensor.From(s, y, batch, length))
		}
	} else {
		m, err := models.NewMLP(s, 40, 30, 10)
		if err != nil {
			t.Fatal(err)
		}
		x, y := make([]int32, 16*40), make([]int32, 16)
		params = m.Params()
		loss = func(n string) *tensor.Tensor {
			data.FillIndices(x, n+" x", 100)
			data.FillIndices(y, n+" y", 10)
			return m.Loss(tensor.From(s, x, 16, 40).Cast(tensor.F32).MulS(0.01), tensor.From(s, y))
		}
	}
	opt := optim.NewAdamW(params, optim.AdamWOptions{LR: 1e-3, Decay: 0.01})
	losses := make([]float64, steps)
	for i := range losses {
		var l *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			l = sc.Keep(loss(string(rune('a' + i))))
			grads, err := autograd.Grad(l, nn.Tensors(params)...)
			if err == nil {
				err = opt.Step(grads)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		var err error
		if losses[i], err = l.Item(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		l.Free()
	}
	return losses
}

// TestModelsSameBits: models learn the same, to the last bit, in this process and through
// a cluster, with one message a step once the first two programs are known.
func TestModelsSameBits(t *testing.T) {
	c := start(t, cluster.Options{Workers: 2})
	for _, transformer := range []bool{true, false} {
		const steps = 20
		want := trainModel(t, inProcess(t), transformer, steps)
		e := dial(t, c, nil)
		got := trainModel(t, tensor.NewSession(e, nil), transformer, steps)
		for i := range want {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("transformer %v: loss %d is %v through the cluster, %v in this process", transformer, i, got[i], want[i])
			}
		}
		if want[0] == want[steps-1] || math.IsNaN(want[steps-1]) {
			t.Errorf("nothing was learnt: %v", want)
		}
		if st := e.Stats(); st.Bodies > 4 || st.RoundTrips != steps || st.Messages > steps+st.Bodies+st.Segments+1 {
			t.Errorf("%+v in %d steps", st, steps)
		}
	}
	s, err := client.Status(testContext(t), nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if s.Get("tensor_bytes") != 0 {
		t.Errorf("the dispatcher saw %d bytes of tensors", s.Get("tensor_bytes"))
	}
}
