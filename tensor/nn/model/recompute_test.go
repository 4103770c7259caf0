package model

import (
	"context"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// sized keeps the size of the temporaries of the programs' plans.
type sized struct {
	tensor.Engine
	temp int
}

func (e *sized) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		e.temp = max(e.temp, compile.Compile(b.Program.Clone(), nil).Temp)
	}
	return e.Engine.Submit(ctx, b)
}

// decoder is the interface of the models of text.
type decoder interface {
	nn.Layer
	nn.Recomputer
	Loss(x, y *tensor.Tensor) *tensor.Tensor
}

// trained takes three steps of AdamW and returns the losses, all parameters, and the size
// of the temporaries.
func trained(t *devicetest.T, make func(s *tensor.Session) (decoder, error), again bool) ([][]float32, int) {
	t.Helper()
	e := &sized{Engine: device.NewEngine(t.Device())}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	m, err := make(s)
	if err != nil {
		t.Fatal(err)
	}
	m.SetRecompute(again)
	leaves := nn.Tensors(m.Params())
	opt := optim.NewAdamW(m.Params(), optim.AdamWOptions{Decay: 0.1})
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	e.temp = 0
	var out [][]float32
	for step := range 3 {
		x, y := tokens(step, 16, 32)
		var loss *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			loss = sc.Keep(m.Loss(tensor.From(s, x, 16, 32), tensor.From(s, y, 16, 32)))
			grads, err := autograd.Grad(loss, leaves...)
			if err != nil {
				t.Fatal(err)
			}
			if err := opt.Step(grads); err != nil {
				t.Fatal(err)
			}
		})
		v, err := tensor.Data[float32](loss)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	for _, p := range leaves {
		v, err := tensor.Data[float32](p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out, e.temp
}

// tokens returns tokens and those that follow them.
func tokens(step, n, length int) (x, y []int32) {
	for i := range n * length {
		x, y = append(x, int32((i*7+step)%61)), append(y, int32((i*7+7+step)%61))
	}
	return x, y
}

// TestRecompute: recomputed layers train to the same bits in less than half of the
// memory.
func TestRecompute(t *testing.T) { devicetest.Each(t, testRecompute) }

func testRecompute(t *devicetest.T) {
	for name, make := range map[string]func(s *tensor.Session) (decoder, error){
		"qwen3": func(s *tensor.Session) (decoder, error) {
			c := Qwen3Tiny()
			c.Layers, c.Vocab = 6, 64
			return NewQwen3(s, c)
		},
		"gpt": func(s *tensor.Session) (decoder, error) {
			return NewGPT(s, GPTConfig{Vocab: 64, Hidden: 64, Layers: 6, Heads: 4, Context: 32})
		},
	} {
		plain, most := trained(t, make, false)
		again, less := trained(t, make, true)
		for i := range plain {
			if !slices.Equal(plain[i], again[i]) {
				t.Errorf("%s: result %d differs", name, i)
			}
		}
		if slices.Equal(plain[0], plain[2]) {
			t.Errorf("%s: nothing was learnt", name)
		}
		if less*2 > most {
			t.Errorf("%s: %d bytes of temporaries, %d when all is kept; expected less than half", name, less, most)
		}
		t.Logf("%s: %d bytes of temporaries, %d when all is kept", name, less, most)
	}
}
