package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
)

// staged rewrites the recorded program for stages, simulates it, and compares it with one
// worker.
func (c *capture) staged(t *testing.T, stages []Stage, of map[tensor.Signal]int, inputs []StagedLayout, o *Options) (*Plan, traffic) {
	t.Helper()
	if inputs == nil {
		inputs = make([]StagedLayout, len(c.inputs))
		for i := range inputs {
			inputs[i].Stage = AnyStage
		}
	}
	p, err := RewriteStages(c.program, stages, of, inputs, o)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]*array
	for i, x := range c.inputs {
		in := p.Inputs[i]
		parts = append(parts, split(stages[in.Stage].Mesh, in.Layout, x))
	}
	outs, tr := simulate(t, p, parts, c.scalars)
	want := whole(t, c.program, c.inputs, c.scalars)
	kept := 0
	for k, out := range p.Outputs {
		kept++
		got, top := assemble(t, stages[out.Stage].Mesh, out.Placed, outs[k])
		if diff := differs(got, want[out.Instr], 1e-5*(0.01+top)); diff != "" {
			t.Errorf("%%%d %v %s", out.Instr, c.program.Instrs[out.Instr].Op, diff)
		}
	}
	for _, in := range c.program.Instrs {
		if in.Keep {
			kept--
		}
	}
	if kept != 0 {
		t.Errorf("%d results too many", kept)
	}
	if most := slices.Max(tr.sent); most != p.Stats.Bytes {
		t.Errorf("a rank sent %d bytes, the plan says %d", most, p.Stats.Bytes)
	}
	if t.Failed() {
		t.Logf("%s\n%v", p.Explain(), p)
	}
	return p, tr
}

// layers records a network with a layer for each stage, trained on micro-batches in the
// order of the schedule: gradients are added up, and the parameters are updated at the
// end.
func layers(t *testing.T, stages, micro, rows, width int) *capture {
	return record(t, func(s *tensor.Session) (out []*tensor.Tensor) {
		name := func(k int) string { return fmt.Sprintf("stage%d", k) }
		var ws, sums []*tensor.Tensor
		for k := range stages {
			s.Signal(name(k), func() { ws = append(ws, tensor.From(s, values(width*width), width, width).MulS(0.1).RequireGrad()) })
		}
		sums = make([]*tensor.Tensor, stages)
		var xs []*tensor.Tensor
		s.Signal("batch", func() {
			for range micro {
				xs = append(xs, tensor.From(s, values(rows*width), rows, width))
			}
		})
		order, err := PipelineOrder(stages, micro)
		if err != nil {
			t.Fatal(err)
		}
		acts, ins := make([][]*tensor.Tensor, stages), make([][]*tensor.Tensor, stages)
		grads := make([]*tensor.Tensor, micro)
		for k := range stages {
			acts[k], ins[k] = make([]*tensor.Tensor, micro), make([]*tensor.Tensor, micro)
		}
		for _, a := range order {
			k, i := a.Stage, a.Micro
			s.Signal(name(k), func() {
				if a.Kind == Forward {
					x := xs[i]
					if k > 0 {
						x = acts[k-1][i].Detach().RequireGrad()
						ins[k][i] = x
					}
					y := x.Matmul(ws[k]).Tanh()
					if k == stages-1 {
						y = y.Mul(y).Mean()
						out = append(out, y)
					}
					acts[k][i] = y
					return
				}
				of := []*tensor.Tensor{ws[k]}
				if k > 0 {
					of = append(of, ins[k][i])
				}
				g, err := autograd.GradWith(&autograd.Options{GradOutput: grads[i]}, acts[k][i], of...)
				if err != nil {
					t.Fatal(err)
				}
				if k > 0 {
					grads[i] = g[1]
				}
				if sums[k] == nil {
					sums[k] = g[0]
				} else {
					sums[k] = sums[k].Add(g[0])
				}
			})
		}
		for k := range stages {
			s.Signal(name(k), func() { out = append(out, ws[k].Sub(sums[k].MulS(0.1/float64(micro)))) })
		}
		return out
	})
}

func each1(n int) (stages []Stage, of map[tensor.Signal]int) {
	of = map[tensor.Signal]int{}
	for k := range n {
		stages = append(stages, Stage{Line(1), []int{k}})
		of[sig(fmt.Sprintf("stage%d", k))] = k
		of[tensor.Signal{Name: fmt.Sprintf("stage%d", k), Backward: true}] = k
	}
	return stages, of
}

// TestPipeline: a pipeline computes the numbers of one worker, sends an activation and a
// gradient for every micro-batch between neighbours, and every stage works in the order
// of the schedule.
func TestPipeline(t *testing.T) {
	const rows, width = 4, 6
	for _, c := range [][2]int{{1, 3}, {2, 1}, {2, 4}, {3, 4}, {4, 6}} {
		n, micro := c[0], c[1]
		t.Run(fmt.Sprintf("%d stages, %d micro-batches", n, micro), func(t *testing.T) {
			stages, of := each1(n)
			p, tr := layers(t, n, micro, rows, width).staged(t, stages, of, nil, nil)
			if want := 2 * micro * (n - 1); tr.calls[protocol.Send] != want || p.Stats.Collectives[protocol.Send] != want {
				t.Errorf("%d transfers, the plan says %d, the formula %d", tr.calls[protocol.Send], p.Stats.Collectives[protocol.Send], want)
			}
			for k := range n {
				neighbours := 2
				if k == 0 || k == n-1 {
					neighbours = 1
				}
				if n == 1 {
					neighbours = 0
				}
				if want := int64(4 * rows * width * micro * neighbours); tr.sent[k] != want {
					t.Errorf("stage %d sent %d bytes, the formula says %d", k, tr.sent[k], want)
				}
			}
			order, err := PipelineOrder(n, micro)
			if err != nil {
				t.Fatal(err)
			}
			// its sends and waits, in the schedule's order
			for k, r := range p.Ranks {
				var want, got []string
				for _, a := range order {
					if a.Stage != k {
						continue
					}
					first, last := k == 0, k == n-1
					if a.Kind == Backward {
						first, last = last, first
					}
					if !first {
						want = append(want, "receive")
					}
					if !last {
						want = append(want, "send")
					}
				}
				for _, s := range r.Steps {
					if s.Kind == Start && s.Collective.Kind == protocol.Send {
						got = append(got, "send")
					} else if s.Kind == Wait && s.Collective.Kind == protocol.Recv {
						got = append(got, "receive")
					}
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("stage %d does %v, the schedule says %v", k, got, want)
				}
			}
			t.Logf("%v; bytes sent by workers: %v", p.Stats, tr.sent)
		})
	}
}

// TestPipelineMemory: a stage frees the activations that it sent when they have arrived,
// not at the end.
func TestPipelineMemory(t *testing.T) {
	stages, of := each1(2)
	p, _ := layers(t, 2, 8, 4, 6).staged(t, stages, of, nil, nil)
	live, most := 0, 0
	for _, s := range p.Ranks[0].Steps {
		if s.Collective != nil && s.Collective.Kind == protocol.Send {
			if s.Kind == Start {
				live++
			} else {
				live--
			}
			most = max(most, live)
		}
	}
	if live != 0 || most != 2 {
		t.Errorf("%d activations are under way at once, %d at the end; the schedule allows 2 of 8", most, live)
	}
}

// TestBackwardWorkers: two stages have backward workers of their own; each of the four
// workers runs the forward or the backward pass of a layer.
func TestBackwardWorkers(t *testing.T) {
	c := layers(t, 2, 1, 4, 6)
	stages := []Stage{{Line(1), []int{0}}, {Line(1), []int{1}}, {Line(1), []int{3}}, {Line(1), []int{2}}}
	back := func(n string) tensor.Signal { return tensor.Signal{Name: n, Backward: true} }
	p, _ := c.staged(t, stages, map[tensor.Signal]int{sig("stage0"): 0, sig("stage1"): 1, back("stage0"): 2, back("stage1"): 3}, nil, nil)
	for w, r := range p.Ranks {
		products := 0
		for _, s := range r.Steps {
			if s.Kind == RunProgram {
				for _, in := range s.Run.Program.Instrs {
					if in.Op == tensor.OpMatmul {
						products++
					}
				}
			}
		}
		// No gradient is requested of the first layer's input.
		if want := []int{1, 1, 2, 1}[w]; products != want {
			t.Errorf("worker %d does %d products, expected %d\n%v", w, products, want, p)
		}
	}
}

// TestStagesOfMeshes: stages are meshes, with data parallelism inside. Between them
// tensors are sent rank by rank where the meshes agree, and whole where they don't.
func TestStagesOfMeshes(t *testing.T) {
	c := layers(t, 2, 2, 8, 6)
	_, of := each1(2)
	o := &Options{Signals: Signals{sig("batch"): {Layout: On(Shard(0))}}}
	inputs := func() []StagedLayout {
		out := make([]StagedLayout, len(c.inputs))
		for i := range out {
			out[i].Stage = AnyStage
			if g, ok := c.program.SignalOf(tensor.ExternalRef(i)); ok && g.Name == "batch" {
				out[i].Layout = On(Shard(0))
			}
		}
		return out
	}
	p, tr := c.staged(t, []Stage{{Line(2), []int{0, 1}}, {Line(2), []int{2, 3}}}, of, inputs(), o)
	if tr.calls[protocol.Send] != 2*p.Stats.Collectives[protocol.Send] || p.Stats.Collectives[protocol.Send] != 4 {
		t.Errorf("%d transfers of %d tensors, expected 8 of 4", tr.calls[protocol.Send], p.Stats.Collectives[protocol.Send])
	}
	if want := int64(4 * 4 * 6 * 2); tr.sent[0] < want {
		t.Errorf("worker 0 sent %d bytes, at least %d are activations", tr.sent[0], want)
	}
	c.staged(t, []Stage{{Line(1), []int{0}}, {Line(3), []int{3, 1, 2}}}, of, nil, o)
	c.staged(t, []Stage{{Line(3), []int{4, 1, 2}}, {Line(2), []int{0, 3}}}, of, inputs(), o)
	c.staged(t, []Stage{{Grid(2, 2), []int{0, 1, 2, 3}}, {Line(1), []int{4}}}, of, inputs(), o)
}

// TestPlaceStages: inputs on AnyStage are put on the first stage that reads them, with
// its hints.
func TestPlaceStages(t *testing.T) {
	c := layers(t, 2, 2, 8, 6)
	_, of := each1(2)
	stages := []Stage{{Line(2), []int{0, 1}}, {Line(3), []int{2, 3, 4}}}
	o := &Options{Signals: Signals{sig("stage1"): {Layout: On(Shard(1))}, sig("batch"): {Layout: On(Shard(0))}}}
	p, err := PlaceStages(c.program, stages, of, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range p.Inputs {
		g, _ := c.program.SignalOf(tensor.ExternalRef(i))
		want := map[string]Placed{"stage0": {Stage: 0}, "stage1": {Stage: 1, Layout: On(Shard(1))}, "batch": {Stage: 0, Layout: On(Shard(0))}}[g.Name]
		if in.Stage != want.Stage || in.Layout != want.Layout {
			t.Errorf("in%d of %v lies %v on stage %d, expected %v on stage %d", i, g, in.Layout, in.Stage, want.Layout, want.Stage)
		}
	}
	var inputs []StagedLayout
	for _, in := range p.Inputs {
		inputs = append(inputs, StagedLayout{in.Stage, in.Layout})
	}
	c.staged(t, stages, of, inputs, o)
}

// TestStagesWithoutSignals: instructions whose signals have no stage run where their data
// is, on one of several stages, and nothing is sent.
func TestStagesWithoutSignals(t *testing.T) {
	stages, _ := each1(3)
	if _, tr := layers(t, 2, 2, 4, 6).staged(t, stages, nil, nil, nil); len(tr.calls) > 0 {
		t.Errorf("%v", tr.calls)
	}
}

func TestBadStages(t *testing.T) {
	c := layers(t, 2, 1, 4, 6)
	one := Stage{Line(1), []int{0}}
	inputs := make([]StagedLayout, len(c.inputs))
	for name, f := range map[string]func() error{
		"none":   func() error { _, err := RewriteStages(c.program, nil, nil, inputs, nil); return err },
		"shared": func() error { _, err := RewriteStages(c.program, []Stage{one, one}, nil, inputs, nil); return err },
		"of 2": func() error {
			_, err := RewriteStages(c.program, []Stage{{Line(2), []int{0}}}, nil, inputs, nil)
			return err
		},
		"negative": func() error {
			_, err := RewriteStages(c.program, []Stage{{Line(1), []int{-1}}}, nil, inputs, nil)
			return err
		},
		"no mesh": func() error { _, err := RewriteStages(c.program, []Stage{{nil, nil}}, nil, inputs, nil); return err },
		"unknown stage": func() error {
			_, err := RewriteStages(c.program, []Stage{one}, map[tensor.Signal]int{sig("a"): 1}, inputs, nil)
			return err
		},
	} {
		if err := f(); !errors.Is(err, ErrMesh) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]func() error{
		"few inputs": func() error { _, err := RewriteStages(c.program, []Stage{one}, nil, nil, nil); return err },
		"input on stage 3": func() error {
			bad := slices.Clone(inputs)
			bad[0].Stage = 3
			_, err := RewriteStages(c.program, []Stage{one}, nil, bad, nil)
			return err
		},
		"input's dim": func() error {
			bad := slices.Clone(inputs)
			bad[0].Layout = On(Shard(7))
			_, err := RewriteStages(c.program, []Stage{one}, nil, bad, nil)
			return err
		},
		"no result": func() error {
			_, err := RewriteStages(c.program, []Stage{one}, nil, inputs, &Options{Outputs: map[int]Layout{99999: {}}})
			return err
		},
	} {
		if err := f(); !errors.Is(err, ErrPlacement) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
