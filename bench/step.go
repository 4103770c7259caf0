package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/optim"
)

const (
	maxStepRatio = 1.25
	maxStepMS    = 8

	stepBatch = 2
	stepSeq   = 64
)

// runStep times training steps of a transformer so small that the cost around the
// arithmetic shows. Every step waits for its loss, as in interactive use. A third side
// reads every tenth loss, and so shows the cost without waiting.
func runStep(ctx context.Context, o *Options) (*Report, error) {
	r := &Report{Bench: "step"}
	near, far, err := nearAndFar(ctx, o)
	if err != nil {
		return nil, err
	}
	defer near.close()
	defer far.close()

	type way struct {
		*series
		*stepper
		every int // steps between two losses that are read
	}
	var sides []way
	for _, g := range []*rig{near, far} {
		st, err := newStepper(g.sess)
		if err != nil {
			return nil, err
		}
		sides = append(sides, way{&series{name: g.name, unit: "ms"}, st, 1})
	}
	ahead := o.work(10)
	sides = append(sides, way{&series{name: "cluster, every 10th loss read", unit: "ms"}, sides[1].stepper, ahead})

	const block = 10
	rounds, n := o.rounds(15), o.work(5)*block
	for round := range rounds + 1 { // the first is not counted
		samples := make([][]float64, len(sides))
		// In turns of few steps: whatever disturbs one side disturbs the other.
		for range n / block {
			for i, side := range sides {
				got, err := side.steps(ctx, block, side.every)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", side.name, err)
				}
				samples[i] = append(samples[i], got...)
			}
		}
		if round == 0 {
			continue
		}
		for i, side := range sides {
			side.add(samples[i]...)
		}
	}
	for _, side := range sides {
		r.measured(side.series)
	}
	r.atMost("step_cluster_over_inprocess", ratio(sides[1].series, sides[0].series), maxStepRatio)
	r.atMost("step_cluster_ms", quantile(sides[1].medians(), 0.5), maxStepMS)
	return r, largerSteps(ctx, o, r, far)
}

// stepper takes training steps of hidden 64, 2 layers, 4 heads, 2 of keys and values,
// batch 2 and sequence 64.
type stepper struct {
	s      *tensor.Session
	m      *model.Qwen3
	leaves []*tensor.Tensor
	opt    *optim.AdamW
	taken  int
	x, y   []int32
}

func newStepper(s *tensor.Session) (*stepper, error) {
	s.Seed(1)
	m, err := model.NewQwen3(s, model.Qwen3Tiny())
	if err != nil {
		return nil, err
	}
	ps := m.Params()
	st := &stepper{s: s, m: m, leaves: nn.Tensors(ps), opt: optim.NewAdamW(ps, optim.AdamWOptions{Decay: 0.01})}
	st.x, st.y = make([]int32, stepBatch*stepSeq), make([]int32, stepBatch*stepSeq)
	return st, s.Sync()
}

// steps takes n steps and returns what each took, in ms. A loss is read every so many
// steps; without one in between what is returned is the mean of those since.
func (st *stepper) steps(ctx context.Context, n, every int) ([]float64, error) {
	var out []float64
	start := time.Now()
	for i := 1; i <= n; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		loss, err := st.record()
		if err != nil {
			return nil, err
		}
		if i%every == 0 || i == n {
			_, err = loss.Item()
		} else {
			err = st.s.Flush()
		}
		if err != nil {
			return nil, err
		}
		loss.Free()
		if i%every == 0 {
			now := time.Now()
			out = append(out, millis(now.Sub(start))/float64(every))
			start = now
		}
	}
	return out, nil
}

// record records a step on tokens made by a formula and returns its loss.
func (st *stepper) record() (loss *tensor.Tensor, err error) {
	st.taken++
	name := fmt.Sprintf("step %d", st.taken)
	data.FillIndices(st.x, name+" x", uint64(st.m.Config.Vocab))
	data.FillIndices(st.y, name+" y", uint64(st.m.Config.Vocab))
	st.s.Scope(func(sc *tensor.Scope) {
		x, y := tensor.From(st.s, st.x, stepBatch, stepSeq), tensor.From(st.s, st.y, stepBatch, stepSeq)
		loss = sc.Keep(st.m.Loss(x, y))
		var grads []*tensor.Tensor
		if grads, err = autograd.Grad(loss, st.leaves...); err == nil {
			err = st.opt.Step(grads)
		}
	})
	return loss, err
}
