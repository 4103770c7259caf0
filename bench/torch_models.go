package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/train"
)

// form is what a model of the comparison is: torch/models.py builds the same from it.
type form struct {
	Kind    string `json:"kind"` // mlp, lenet, resnet, gpt, qwen, decode
	Batch   int    `json:"batch"`
	Vocab   int    `json:"vocab,omitempty"`
	Hidden  int    `json:"hidden,omitempty"`
	Layers  int    `json:"layers,omitempty"`
	Heads   int    `json:"heads,omitempty"`
	KVHeads int    `json:"kv_heads,omitempty"`
	HeadDim int    `json:"head_dim,omitempty"`
	FFN     int    `json:"ffn,omitempty"`
	Seq     int    `json:"seq,omitempty"`
}

// trial is a model with an optimizer, and how much slower than eager PyTorch a step may
// be at most. A decoder's step decodes a token.
type trial struct {
	Name  string `json:"model"`
	Form  form   `json:"form"`
	Opt   string `json:"opt"` // adamw, sgd
	limit float64
	steps int // of one turn
}

// inBatches are the models of the size that train takes, in batches of n.
func inBatches(n int) (out []trial) {
	for _, t := range trials() {
		if t.Name == "qwen_t64" || t.Name == "qwen_t128" {
			t.Form.Batch = n
			t.Name += "_b" + strconv.Itoa(n)
			out = append(out, t)
		}
	}
	return out
}

// trials are the models that the comparison trains, the quickest first.
func trials() []trial {
	qwen := func(vocab, hidden, layers, heads, dim, ffn, batch, seq int) form {
		return form{Kind: "qwen", Vocab: vocab, Hidden: hidden, Layers: layers, Heads: heads, KVHeads: 2, HeadDim: dim, FFN: ffn, Batch: batch, Seq: seq}
	}
	gpt := func(c model.GPTConfig, batch int) form {
		return form{Kind: "gpt", Vocab: c.Vocab, Hidden: c.Hidden, Layers: c.Layers, Heads: c.Heads, Batch: batch, Seq: c.Context}
	}
	return []trial{
		{"mlp_adamw", form{Kind: "mlp", Batch: 64}, "adamw", 0.35, 60},
		{"mlp_sgd", form{Kind: "mlp", Batch: 64}, "sgd", 0.9, 60},
		{"lenet", form{Kind: "lenet", Batch: 64}, "adamw", 1.0, 20},
		{"resnet", form{Kind: "resnet", Batch: 32}, "sgd", 0.8, 4},
		{"gpt_t64", gpt(model.GPTTiny(), 2), "adamw", 0.35, 40},
		{"qwen_t64", qwen(256, 64, 2, 4, 16, 192, 2, 64), "adamw", 0.35, 40},
		{"gpt_t128", gpt(model.GPTSmall(), 2), "adamw", 0.5, 15},
		{"qwen_t128", qwen(1000, 128, 4, 4, 32, 384, 2, 64), "adamw", 0.5, 15},
		{"gpt_mid", gpt(model.GPTMid(), 4), "adamw", 0.85, 2},
		{"decode", form{Kind: "decode", Batch: 1, Vocab: 256, Hidden: 384, Layers: 6, Heads: 6, Seq: 64}, "sgd", 0.5, 64},
		{"qwen_mid", qwen(256, 384, 6, 6, 64, 1024, 4, 256), "adamw", 0.85, 2},
	}
}

// network is what the models have in common.
type network interface {
	nn.Module
	Loss(x, y *tensor.Tensor) *tensor.Tensor
}

func (f *form) build(s *tensor.Session) network {
	switch f.Kind {
	case "mlp":
		return must(model.NewMLP(s, 784, 256, 10))
	case "lenet":
		return must(model.NewCNN(s, 1, 28, 10))
	case "resnet":
		return newResnet(s)
	case "decode":
		return newDecoder(s, f)
	case "gpt":
		return must(model.NewGPT(s, model.GPTConfig{Vocab: f.Vocab, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads, Context: f.Seq}))
	}
	return must(model.NewQwen3(s, model.Qwen3Config{Vocab: f.Vocab, Hidden: f.Hidden, Layers: f.Layers, Heads: f.Heads, KVHeads: f.KVHeads,
		HeadDim: f.HeadDim, FFN: f.FFN, Context: f.Seq, Theta: 1e6, Eps: 1e-6, Tied: true}))
}

// image is the shape of an example of the models of images, nil for others.
func (f *form) image() []int {
	switch f.Kind {
	case "mlp":
		return []int{784}
	case "lenet":
		return []int{1, 28, 28}
	case "resnet":
		return []int{3, 32, 32}
	}
	return nil
}

// batch makes a batch of the model by a formula, from a name. The empty name's is that of
// the comparison.
func (f *form) batch(s *tensor.Session, name string) (x, y *tensor.Tensor) {
	if image := f.image(); image != nil {
		shape := append([]int{f.Batch}, image...)
		v, classes := make([]float32, tensor.Shape(shape).Elems()), make([]int64, f.Batch)
		data.FillUniform(v, name+"x", 0, 1)
		data.FillIndices(classes, name+"y", 10)
		return tensor.From(s, v, shape...), tensor.From(s, classes, f.Batch)
	}
	tokens := func(name string) *tensor.Tensor {
		v := make([]int64, f.Batch*f.Seq)
		data.FillIndices(v, name, uint64(f.Vocab))
		return tensor.From(s, v, f.Batch, f.Seq)
	}
	return tokens(name + "x"), tokens(name + "y")
}

// initial is the offset and the scale of a parameter's first value: the twin of initial
// in torch/models.py.
func initial(p tensor.Named) (offset, scale float32) {
	n := p.Name
	switch {
	case strings.HasSuffix(n, "norm.weight"), strings.Contains(n, ".ln") && strings.HasSuffix(n, "weight"), n == "lnf.weight":
		return 1, 1. / 8
	case p.T.Rank() == 4:
		return 0, 1. / 8
	}
	return 0, 1. / 32
}

// trainer trains one trial in a session.
type trainer struct {
	s      *tensor.Session
	net    network
	leaves []*tensor.Tensor
	opt    optim.Optimizer
	x, y   *tensor.Tensor

	fresh *form // if not nil, each step has a batch of its own
	taken int   // steps on fresh batches
}

func newTrainer(s *tensor.Session, t *trial) *trainer { return makeTrainer(s, t, false) }

// makeTrainer is newTrainer; named gives the parameters the signals of their names, and
// what layers hand on those that the model gives it.
func makeTrainer(s *tensor.Session, t *trial, named bool) *trainer {
	net := t.Form.build(s)
	ps := net.Params()
	if m, ok := net.(nn.Signaler); ok && named {
		m.SetSignals(true)
	}
	for _, p := range ps {
		v := make([]float32, p.T.Elems())
		offset, scale := initial(p)
		data.FillUniform(v, p.Name, offset, scale)
		within(p.Name, func() { check(p.T.Assign(tensor.From(s, v, p.T.Shape()...))) })
		if named {
			p.T.Signal(p.Name)
		}
	}
	tr := &trainer{s: s, net: net, leaves: nn.Tensors(ps)}
	if t.Opt == "adamw" {
		tr.opt = optim.NewAdamW(ps, optim.AdamWOptions{Decay: 0.01})
	} else {
		tr.opt = optim.NewSGD(ps, optim.SGDOptions{LR: 1e-2})
	}
	s.Signal(train.BatchSignal, func() { tr.x, tr.y = t.Form.batch(s, "") })
	check(s.Sync())
	return tr
}

// free gives the model's memory back.
func (tr *trainer) free() {
	all := append(append(nn.Tensors(tr.opt.State()), tr.leaves...), tr.x, tr.y)
	if m, ok := tr.net.(*decoder); ok {
		all = append(all, m.state()...)
	}
	for _, t := range all {
		t.Free()
	}
}

// record records a step and returns its loss.
func (tr *trainer) record() (loss *tensor.Tensor) {
	tr.s.Scope(func(sc *tensor.Scope) {
		if m, ok := tr.net.(*decoder); ok {
			loss = sc.Keep(m.decode(tr.s))
			return
		}
		x, y := tr.x, tr.y
		if tr.fresh != nil {
			tr.taken++
			x, y = tr.fresh.batch(tr.s, fmt.Sprintf("step %d ", tr.taken))
		}
		loss = sc.Keep(tr.net.Loss(x, y))
		check(tr.opt.Step(must(autograd.Grad(loss, tr.leaves...))))
	})
	return loss
}

// step takes a step and waits for its loss.
func (tr *trainer) step() float64 {
	loss := tr.record()
	defer loss.Free()
	return must(loss.Item())
}

// each takes n steps, waits for the loss of each and returns what they took, in ms.
func (tr *trainer) each(ctx context.Context, n int) []float64 {
	each, _ := tr.steps(ctx, n, 1)
	return each
}

// onTheWay is how many steps are sent before one's loss is waited for.
const onTheWay = 10

// steps takes n steps and returns what one took on average, in ms, until all are done,
// and the same of every so many steps. It is a training loop as train's: the next step is
// recorded while the last one runs, and the losses of every so many steps and of the last
// one are read.
func (tr *trainer) steps(ctx context.Context, n, every int) (each []float64, average float64) {
	ms := func(since, now time.Time, steps int) float64 {
		return float64(now.Sub(since)) / float64(millis) / float64(steps)
	}
	began := time.Now()
	start, from := began, 0
	for i := 1; i <= n; i++ {
		check(ctx.Err())
		loss := tr.record()
		if i%every == 0 || i == n {
			must(loss.Item())
			now := time.Now()
			each = append(each, ms(start, now, i-from))
			start, from = now, i
		} else {
			check(tr.s.Flush())
		}
		loss.Free()
	}
	return each, ms(began, start, n)
}
