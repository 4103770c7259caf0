package train

import (
	"fmt"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/shard"
)

// PartSignal returns the signal under which the operations of a model's part are recorded
// in a pipeline. It has the form of a config's pattern for everything whose name begins
// with the part's, as in model.layers.0.*.
func PartSignal(part string) string { return part + ".forward" }

// pipeline records a step that is made of micro-batches: forward and backward of each
// stage on each of them, in the order of the schedule 1F1B (shard.PipelineOrder), all in
// one program, so that stages on other workers run in that order (shard.RewriteStages).
//
// Between stages the graph is cut: the input of a stage is a leaf, and its gradient goes
// back to the stage before. A stage adds up the gradients of its parameters. A parameter
// that two stages use has a sum on each; the two are added in the end.
type pipeline struct {
	stages []pipeStage
	order  []shard.Action
}

// pipeStage is the parts of one stage.
type pipeStage struct {
	parts  []nn.Part
	signal string // the signal of all of them; "" if no stage is known
	leaves []*tensor.Tensor
}

// newPipeline puts the model's parts on their stages by of. A part that of doesn't know
// is on the stage of the one before. It returns nil if the batch is not cut.
func newPipeline(m *Model, net nn.Layer, o *Options) (*pipeline, error) {
	if o.MicroBatches == 1 && o.StageOf == nil {
		return nil, nil
	}
	parts := []nn.Part{{Params: net.Params(), Forward: net.Forward}}
	if o.StageOf != nil {
		p, ok := net.(nn.Parted)
		if !ok {
			return nil, fmt.Errorf("%w: %s has no parts that could be on several stages", ErrOption, m.Name)
		}
		parts = p.Parts()
	}
	p, current, seen := &pipeline{}, -1, map[int]string{}
	for _, part := range parts {
		k, said := 0, false
		if o.StageOf != nil {
			k, said = o.StageOf(PartSignal(part.Name))
		}
		if len(p.stages) == 0 || said && current >= 0 && k != current {
			if before, again := seen[k]; said && again {
				return nil, fmt.Errorf("%w: %s is on the stage of %s, and parts between them are not: a stage is parts that follow each other", ErrOption, part.Name, before)
			}
			p.stages = append(p.stages, pipeStage{})
		}
		st := &p.stages[len(p.stages)-1]
		st.parts = append(st.parts, part)
		st.leaves = append(st.leaves, nn.Tensors(part.Params)...)
		if said {
			current, seen[k], st.signal = k, part.Name, PartSignal(part.Name)
		}
	}
	var err error
	p.order, err = shard.PipelineOrder(len(p.stages), o.MicroBatches)
	return p, err
}

// rows returns the number of examples that are uploaded at once.
func (r *run) rows() int { return r.o.Batch / r.o.MicroBatches }

// underway is a micro-batch between its first stage forward and its last stage backward.
type underway struct {
	y       *tensor.Tensor   // the targets of the last stage
	in, out []*tensor.Tensor // of each stage
	// of the output of the stage that goes backward next; nil for the loss
	grad *tensor.Tensor
}

// pipelined records step n in micro-batches. The loss is the mean of theirs.
func (r *run) pipelined(opt *optim.AdamW, leaves []*tensor.Tensor, next feed, n int) (loss *tensor.Tensor, err error) {
	p, count := r.pipe, r.o.MicroBatches
	r.s.Scope(func(sc *tensor.Scope) {
		micro := make([]underway, count)
		sums := make([]map[*tensor.Tensor]*tensor.Tensor, len(p.stages))
		for k := range sums {
			sums[k] = map[*tensor.Tensor]*tensor.Tensor{}
		}
		for _, a := range p.order {
			m, st := &micro[a.Micro], &p.stages[a.Stage]
			if a.Kind == shard.Forward && a.Stage == 0 {
				var x *tensor.Tensor
				r.s.Signal(BatchSignal, func() { x, m.y, err = next(n*count + a.Micro) })
				m.in = []*tensor.Tensor{x}
			}
			if err != nil {
				return
			}
			record := func() {
				if a.Kind == shard.Forward {
					loss = st.forward(r, m, a.Stage, len(p.stages), loss)
				} else {
					err = st.backward(m, a.Stage, count, sums[a.Stage])
				}
			}
			if st.signal == "" {
				record()
			} else {
				r.s.Signal(st.signal, record)
			}
		}
		if err == nil {
			sc.Keep(loss)
			err = r.update(opt, leaves, sums)
		}
	})
	return loss, err
}

// forward runs stage k of some on a micro-batch. The last one adds to the loss.
func (st *pipeStage) forward(r *run, m *underway, k, stages int, loss *tensor.Tensor) *tensor.Tensor {
	if k > 0 {
		m.in = append(m.in, m.out[k-1].Detach().RequireGrad())
	}
	h := m.in[k]
	for _, part := range st.parts {
		h = part.Forward(h)
	}
	if k == stages-1 {
		h = r.loss(h, m.y)
		loss = meanLoss(loss, h, r.o.MicroBatches)
	}
	m.out = append(m.out, h)
	return loss
}

// backward runs stage k backward on a micro-batch and adds to the sums of its parameters'
// gradients.
func (st *pipeStage) backward(m *underway, k, count int, sums map[*tensor.Tensor]*tensor.Tensor) error {
	out := m.out[k]
	if m.grad == nil { // an nth of the loss
		m.grad = tensor.Full(out.Session(), out.DType(), 1/float64(count), out.Shape()...)
	}
	of := st.leaves
	if k > 0 {
		of = append(of[:len(of):len(of)], m.in[k])
	}
	grads, err := autograd.GradWith(&autograd.Options{GradOutput: m.grad}, out, of...)
	if err != nil {
		return err
	}
	if k > 0 {
		m.grad = grads[len(st.leaves)]
	}
	for i, leaf := range st.leaves {
		g := grads[i]
		if sum := sums[leaf]; sum != nil {
			out.Session().NoGrad(func() { g = sum.Add(g) })
		}
		sums[leaf] = g
	}
	return nil
}

// update takes the optimizer's step with the gradients of the stages.
func (r *run) update(opt *optim.AdamW, leaves []*tensor.Tensor, sums []map[*tensor.Tensor]*tensor.Tensor) error {
	grads := make([]*tensor.Tensor, len(leaves))
	r.s.NoGrad(func() {
		for i, p := range leaves {
			for _, stage := range sums {
				switch g := stage[p]; {
				case grads[i] == nil:
					grads[i] = g
				case g != nil:
					grads[i] = grads[i].Add(g)
				}
			}
		}
	})
	return r.descend(opt, grads)
}
