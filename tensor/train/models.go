package train

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
)

const (
	mnistSide    = 28
	mnistClasses = 10
)

// Models lists the models in the order they are shown. With their defaults fashion-mlp
// passes 88 % of the test images and qwen3-tiny 2.6 bits per byte with a margin, in about
// a minute on one core.
func Models() []*Model {
	images := func(name, doc string, o Options, build func(s *tensor.Session) (nn.Layer, error)) *Model {
		o.LossEvery = 10
		return &Model{Name: name, Doc: doc, Data: "images", Defaults: o, Side: mnistSide, Classes: mnistClasses, Build: build}
	}
	text := func(name, doc string, o Options, c model.Qwen3Config) *Model {
		o.LossEvery, o.Sample = 10, 300
		return &Model{Name: name, Doc: doc, Data: "text", Defaults: o, Context: c.Context,
			Build: func(s *tensor.Session) (nn.Layer, error) { return model.NewQwen3(s, c) }}
	}
	return []*Model{
		images("fashion-mlp", "images of 28x28 to 10 classes: two linear layers, 256 in the middle",
			Options{Steps: 9375, Batch: 64, LR: 2e-3, Warmup: 100, Decay: 0.01},
			func(s *tensor.Session) (nn.Layer, error) {
				return model.NewMLP(s, mnistSide*mnistSide, 256, mnistClasses)
			}),
		images("fashion-cnn", "images of 28x28 to 10 classes: two convolutions and three linear layers",
			Options{Steps: 4690, Batch: 64, LR: 2e-3, Warmup: 100, Decay: 0.01},
			func(s *tensor.Session) (nn.Layer, error) { return model.NewCNN(s, 1, mnistSide, mnistClasses) }),
		text("qwen3-tiny", "text byte by byte: a Qwen3 of 2 layers of 64, pieces of 64 bytes",
			Options{Steps: 3000, Batch: 8, LR: 3e-3, LRLast: 3e-4, Warmup: 100, Decay: 0.01}, model.Qwen3Tiny()),
		text("qwen3-small", "text byte by byte: a Qwen3 of 4 layers of 128, pieces of 128 bytes",
			Options{Steps: 3000, Batch: 8, LR: 2e-3, LRLast: 2e-4, Warmup: 100, Decay: 0.01}, model.Qwen3Small()),
	}
}
