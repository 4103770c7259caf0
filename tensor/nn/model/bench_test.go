package model

import (
	"context"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
)

// recording is an engine that runs nothing, so that only the client's work is measured.
type recording struct{ tensor.Engine }

func (recording) Submit(context.Context, *tensor.Batch) ([]tensor.Fetched, error) { return nil, nil }

// training returns a function that takes one AdamW step of the tiny Qwen3, batch 2,
// sequence 64, and reads the loss if read is set.
func training(b *testing.B, s *tensor.Session, read bool) func() {
	b.Helper()
	m, err := NewQwen3(s, Qwen3Tiny())
	if err != nil {
		b.Fatal(err)
	}
	opt := optim.NewAdamW(m.Params(), optim.AdamWOptions{Decay: 0.01})
	leaves := nn.Tensors(m.Params())
	tokens := make([]int32, 2*64)
	for i := range tokens {
		tokens[i] = int32(i * 37 % 256)
	}
	return func() {
		var loss *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			loss = sc.Keep(m.Loss(tensor.From(s, tokens, 2, 64), tensor.From(s, tokens, 2, 64)))
			g, err := autograd.Grad(loss, leaves...)
			if err != nil {
				b.Fatal(err)
			}
			if err := opt.Step(g); err != nil {
				b.Fatal(err)
			}
		})
		defer loss.Free()
		if read {
			if _, err := loss.Item(); err != nil {
				b.Fatal(err)
			}
		} else if err := s.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQwen3Step(b *testing.B) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	step := training(b, s, true)
	step()
	ops := s.Stats().Ops
	step()
	ops = s.Stats().Ops - ops
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
	b.ReportMetric(float64(ops), "ops/step")
}

// BenchmarkQwen3Record measures the same without an engine: recording, gradients,
// encoding and hashing of a step.
func BenchmarkQwen3Record(b *testing.B) {
	d, err := cpu.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s := tensor.NewSession(recording{device.NewEngine(d)}, nil)
	defer s.Close()
	step := training(b, s, false)
	b.ReportAllocs()
	for b.Loop() {
		step()
	}
}
