package model

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// Sampling says how the next token is chosen. The zero value takes the most likely token.
type Sampling struct {
	Temperature float64 // divides the logits; 0 takes the most likely token
	TopK        int     // only the k most likely tokens are considered; 0 is all
	// TopP has only the most likely tokens considered that together have at least this
	// probability (nucleus sampling, Holtzman et al. 2020); 0 and 1 are all.
	TopP float64
	Seed uint64
}

// Generate returns the tokens of Stream. With an error it returns those before it.
func (m *Qwen3) Generate(ctx context.Context, prompt []int32, n int, o Sampling) ([]int32, error) {
	var all []int32
	for next, err := range m.Stream(ctx, prompt, n, o) {
		if err != nil {
			return all, err
		}
		all = append(all, next)
	}
	return all, nil
}

// Stream yields n tokens that continue prompt, which has at least one token, each as soon
// as it is known. The model sees the last Context tokens. Each token is one program, the
// same for all, and reads one row of logits: the sequence is at the start of a window of
// fixed size, and causality masks the rest.
//
// An error is the last that it yields, that of ctx included.
func (m *Qwen3) Stream(ctx context.Context, prompt []int32, n int, o Sampling) iter.Seq2[int32, error] {
	return func(yield func(int32, error) bool) {
		if err := m.stream(ctx, prompt, n, o, func(next int32) bool { return yield(next, nil) }); err != nil {
			yield(0, err)
		}
	}
}

// stream calls yield with each token until it returns false.
func (m *Qwen3) stream(ctx context.Context, prompt []int32, n int, o Sampling, yield func(int32) bool) error {
	if len(prompt) == 0 {
		return fmt.Errorf("%w: an empty prompt", ErrConfig)
	}
	s := m.embed.Weight.Session()
	window := make([]int32, min(m.Config.Context, len(prompt)+n))
	seq := slices.Clone(prompt)
	p := newPicker(m.Config.Vocab, o)
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		last := seq[max(0, len(seq)-len(window)):]
		clear(window[copy(window, last):])
		row := nn.Result(s, func() *tensor.Tensor {
			x := tensor.From(s, window, 1, len(window))
			at := tensor.From(s, []int32{int32(len(last) - 1)})
			return m.logits(m.hidden(x).IndexSelect(1, at))
		})
		var next int32
		err := tensor.View(row, func(logits []float32) error {
			next = p.pick(logits)
			return nil
		})
		row.Free()
		if err != nil {
			return err
		}
		if !yield(next) {
			return nil
		}
		seq = append(seq, next)
	}
	return nil
}

// picker chooses tokens.
type picker struct {
	o     Sampling
	rng   *rand.Rand
	order []int32
	p     []float64
}

func newPicker(vocab int, o Sampling) *picker {
	return &picker{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), order: make([]int32, vocab), p: make([]float64, vocab)}
}

func (k *picker) pick(logits []float32) int32 {
	if !(k.o.Temperature > 0) {
		best := 0
		for i, x := range logits {
			if x > logits[best] {
				best = i
			}
		}
		return int32(best)
	}
	order := k.order[:len(logits)]
	for i := range order {
		order[i] = int32(i)
	}
	if k.o.TopK > 0 && k.o.TopK < len(order) {
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
		order = order[:k.o.TopK]
	}
	top := math.Inf(-1)
	for _, i := range order {
		top = max(top, float64(logits[i]))
	}
	sum := 0.0
	for j, i := range order {
		k.p[j] = math.Exp((float64(logits[i]) - top) / k.o.Temperature)
		sum += k.p[j]
	}
	if k.o.TopP > 0 && k.o.TopP < 1 {
		order, sum = k.nucleus(order, sum)
	}
	at := k.rng.Float64() * sum
	for j, i := range order {
		if at -= k.p[j]; at < 0 {
			return i
		}
	}
	return order[len(order)-1]
}

// nucleus returns the most likely tokens of order that together have the probability
// TopP, whose weights sum to all, and the sum of their weights, which it puts at the
// start of k.p.
func (k *picker) nucleus(order []int32, all float64) ([]int32, float64) {
	weight := make([]float64, cap(k.order))
	for j, i := range order {
		weight[i] = k.p[j]
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(weight[b], weight[a]) })
	sum := 0.0
	for j, i := range order {
		k.p[j] = weight[i]
		if sum += weight[i]; sum >= k.o.TopP*all {
			return order[:j+1], sum
		}
	}
	return order, sum
}
