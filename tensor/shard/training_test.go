package shard

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/optim"
)

// step is the last program that a session ran, and its inputs.
type step struct {
	tensor.Engine
	program *tensor.Program
	scalars []float64
	inputs  []*array
	fresh   []bool // uploaded for this program: data, not state
}

func (s *step) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	uploaded := map[uint64]bool{}
	if b.Program != nil {
		s.program, s.scalars = b.Program.Clone(), append([]float64(nil), b.Scalars...)
		s.inputs, s.fresh = nil, nil
		if _, err := s.Engine.Submit(ctx, &tensor.Batch{Uploads: b.Uploads}); err != nil {
			return nil, err
		}
		for _, u := range b.Uploads {
			uploaded[u.ID] = true
		}
		for _, id := range b.Inputs {
			f, err := s.Engine.Submit(ctx, &tensor.Batch{Fetch: []uint64{id}})
			if err != nil {
				return nil, err
			}
			s.inputs = append(s.inputs, decode(f[0].DType, f[0].Shape, f[0].Bytes))
			s.fresh = append(s.fresh, uploaded[id])
		}
		c := *b
		c.Uploads = nil
		b = &c
	}
	return s.Engine.Submit(ctx, b)
}

type trained interface {
	Params() []tensor.Named
	Loss(x, y *tensor.Tensor) *tensor.Tensor
}

// trainingStep records the second step of a training with AdamW; the first one makes the
// optimizer's state.
func trainingStep(t testing.TB, build func(s *tensor.Session) (trained, error), data func(s *tensor.Session) (x, y *tensor.Tensor)) *step {
	t.Helper()
	e := &step{Engine: enginetest.Reference()}
	s := tensor.NewSession(e, nil)
	m, err := build(s)
	if err != nil {
		t.Fatal(err)
	}
	opt := optim.NewAdamW(m.Params(), optim.AdamWOptions{Decay: 0.1})
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		x, y := data(s)
		loss := m.Loss(x, y)
		var params []*tensor.Tensor
		for _, p := range m.Params() {
			params = append(params, p.T)
		}
		grads, err := autograd.Grad(loss, params...)
		if err != nil {
			t.Fatal(err)
		}
		if err := opt.Step(grads); err != nil {
			t.Fatal(err)
		}
		for _, g := range append(grads, x, y) {
			g.Free()
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func mlpStep(t testing.TB, rows int) *step {
	return trainingStep(t,
		func(s *tensor.Session) (trained, error) { return model.NewMLP(s, 6, 16, 16, 4) },
		func(s *tensor.Session) (x, y *tensor.Tensor) {
			labels := make([]int32, rows)
			for i := range labels {
				labels[i] = int32(i % 4)
			}
			return tensor.RandN(s, tensor.F32, rows, 6), tensor.From(s, labels, rows)
		})
}

func gptStep(t testing.TB, rows int) *step {
	return trainingStep(t,
		func(s *tensor.Session) (trained, error) {
			return model.NewGPT(s, model.GPTConfig{Vocab: 12, Hidden: 8, Layers: 2, Heads: 2, Context: 4})
		},
		func(s *tensor.Session) (x, y *tensor.Tensor) {
			ids := make([]int32, 4*rows)
			for i := range ids {
				ids[i] = int32(i * 5 % 12)
			}
			return tensor.From(s, ids, rows, 4), tensor.From(s, ids, rows, 4)
		})
}

// run rewrites the step, simulates it and compares all its results with one worker's.
func (s *step) run(t *testing.T, m Mesh, place func(i int) Layout, o *Options) *Plan {
	t.Helper()
	var layouts []Layout
	var parts [][]*array
	for i, x := range s.inputs {
		l := place(i)
		layouts, parts = append(layouts, l), append(parts, split(m, l, x))
	}
	p, err := Rewrite(s.program, m, layouts, o)
	if err != nil {
		t.Fatal(err)
	}
	outs, tr := simulate(t, p, parts, s.scalars)
	tr.check(t, p)
	want := whole(t, s.program, s.inputs, s.scalars)
	for k, out := range p.Outputs {
		got, top := assemble(t, m, out.Placed, outs[k])
		if diff := differs(got, want[out.Instr], 1e-4*(0.01+top)); diff != "" {
			t.Errorf("%%%d %v %s", out.Instr, s.program.Instrs[out.Instr].Op, diff)
		}
	}
	if t.Failed() {
		t.Log(p.Explain())
	}
	return p
}

// data returns layouts that cut the uploaded inputs by rows and leave state whole.
func (s *step) data(rows int) func(i int) Layout {
	return func(i int) Layout {
		if s.fresh[i] && s.inputs[i].sh[0] == rows {
			return On(Shard(0))
		}
		return Layout{}
	}
}

// TestDataParallel: data parallelism needs only placements, the batch by rows and
// parameters whole. The gradients move, together and once, and the number of rows.
func TestDataParallel(t *testing.T) {
	for name, s := range map[string]*step{"mlp": mlpStep(t, 8), "gpt": gptStep(t, 4)} {
		for _, n := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s on %d", name, n), func(t *testing.T) {
				rows := 8
				if name == "gpt" {
					rows = 4
				}
				p := s.run(t, Line(n), s.data(rows), nil)
				params := 0
				for i, in := range s.program.Instrs {
					if in.Op == tensor.OpAdamW {
						params++
						if got := p.layoutOf(i); got != (Layout{}) {
							t.Errorf("a parameter lies %v", got)
						}
					}
				}
				calls, moves := p.Stats.Collectives, p.Stats.Moves
				if n == 1 {
					if len(calls) > 0 {
						t.Errorf("one worker has %v", calls)
					}
					return
				}
				if calls[protocol.AllReduce] > 3 || moves[protocol.AllReduce] < params || calls[protocol.AllGather]+calls[protocol.AllToAll]+calls[protocol.ReduceScatter] > 0 {
					t.Errorf("%v of %d parameters, expected all-reduces only: of the gradients, and of the number of rows\n%s", p.Stats, params, p.Explain())
				}
				t.Log(p.Stats)
			})
		}
	}
}

// TestBucketsOverlap: gradients are reduced in buckets beside the rest of the backward
// pass. Each bucket starts where the last of its gradients exists, the first one early,
// and is waited for where the optimizer needs it.
func TestBucketsOverlap(t *testing.T) {
	s := gptStep(t, 4)
	const bucket = 8 << 10
	p := s.run(t, Line(2), s.data(4), &Options{BucketBytes: bucket, OverlapBytes: 64})
	var sizes []int64 // of the buckets of gradients, in the order in which they start
	beside := 0       // the number of these that run beside programs
	under := map[int]bool{}
	for _, step := range p.Ranks[0].Steps {
		switch {
		case step.Kind == RunProgram:
			for id, idle := range under {
				if idle {
					under[id] = false
					beside++
				}
			}
		case step.Collective.DType != tensor.F32:
		case step.Kind == Start:
			n := int64(0)
			for _, m := range step.Collective.Moves {
				n += int64(m.InShape.Elems() * step.Collective.DType.Size())
			}
			sizes = append(sizes, n)
			under[step.Collective.ID] = true
		default:
			delete(under, step.Collective.ID)
		}
	}
	if len(sizes) < 2 || sizes[0] > bucket/2 || beside < len(sizes)-1 {
		t.Errorf("buckets of %v bytes, %d of them beside programs; expected several, all but the last of them, the first up to %d", sizes, beside, bucket/2)
	}
	t.Log(sizes, p.Stats)
}

// layoutOf returns the layout of a kept result.
func (p *Plan) layoutOf(instr int) Layout {
	for _, o := range p.Outputs {
		if o.Instr == instr {
			return o.Layout
		}
	}
	return On(Partial(NoFold))
}

// TestUnevenBatch: a batch that the workers don't divide, and one with fewer rows than
// workers, is cut unevenly, and the loss is weighted by rows.
func TestUnevenBatch(t *testing.T) {
	for _, rows := range []int{10, 3, 1} {
		s := mlpStep(t, rows)
		p := s.run(t, Line(4), s.data(rows), nil)
		if rows > 1 && p.Stats.Moves[protocol.AllReduce] != 7 || p.Stats.Moves[protocol.AllReduce] == 0 {
			t.Errorf("%d rows: %v", rows, p.Stats)
		}
	}
}

// TestShardedOptimizer (ZeRO-1): with a sharded optimizer state gradients are reduced and
// scattered, the parameter shards are gathered, and the state keeps its layout.
func TestShardedOptimizer(t *testing.T) {
	s := mlpStep(t, 8)
	moments := map[int]bool{}
	for i, in := range s.program.Instrs {
		if in.Op == tensor.OpAdamM || in.Op == tensor.OpAdamV {
			if k, ok := s.program.ArgsOf(i)[0].External(); ok {
				moments[k] = true
			}
		}
	}
	rows := s.data(8)
	p := s.run(t, Line(2), func(i int) Layout {
		if moments[i] {
			return On(Shard(0))
		}
		return rows(i)
	}, nil)
	for i, in := range s.program.Instrs {
		switch in.Op {
		case tensor.OpAdamM, tensor.OpAdamV:
			if got := p.layoutOf(i); got != On(Shard(0)) {
				t.Errorf("%%%d %v lies %v", i, in.Op, got)
			}
		case tensor.OpAdamW:
			if got := p.layoutOf(i); got != (Layout{}) {
				t.Errorf("%%%d %v lies %v", i, in.Op, got)
			}
		}
	}
	if st := p.Stats; st.Collectives[protocol.ReduceScatter] != 6 || st.Collectives[protocol.AllGather] != 6 {
		t.Errorf("%v, expected 6 reduce-scatters and 6 all-gathers\n%s", st, p.Explain())
	}
}

// TestDataByModel: on a 2 x 2 mesh the batch is cut by rows along one dim, layers by
// columns and by rows along the other.
func TestDataByModel(t *testing.T) {
	s := mlpStep(t, 8)
	rows := s.data(8)
	p := s.run(t, Grid(2, 2), func(i int) Layout {
		l := rows(i)
		switch sh := s.inputs[i].sh; {
		case len(sh) == 2 && sh[0] == 16 && sh[1] == 6: // the first layer by its outputs
			l[1] = Shard(0)
		case len(sh) == 2 && sh[0] == 16 && sh[1] == 16: // the second by its inputs
			l[1] = Shard(1)
		}
		return l
	}, nil)
	if !strings.Contains(p.Explain(), "along model") || !strings.Contains(p.Explain(), "along data") {
		t.Errorf("nothing moves along a dim of the mesh\n%s", p.Explain())
	}
}

// BenchmarkRewrite measures the rewriting of a step of a transformer with two layers for
// 4 workers.
func BenchmarkRewrite(b *testing.B) {
	s := gptStep(b, 4)
	place := s.data(4)
	var layouts []Layout
	for i := range s.inputs {
		layouts = append(layouts, place(i))
	}
	for b.Loop() {
		if _, err := Rewrite(s.program, Line(4), layouts, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(s.program.Instrs)), "instructions")
}
