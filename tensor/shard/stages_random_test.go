package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// TestRandomStages: random programs with random stages compute the numbers of one worker,
// and no worker waits forever.
func TestRandomStages(t *testing.T) {
	n := 1000
	if testsize.Sampled() {
		n = 100
	}
	sends, waits := 0, 0
	for seed := range uint64(n) {
		t.Run(fmt.Sprintf("seed=%d", seed+1), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed+1, 8))
			c := record(t, func(s *tensor.Session) []*tensor.Tensor { return enginetest.Generate(s, seed+1, 14) })
			var stages []Stage
			of := map[tensor.Signal]int{}
			worker := 0
			c.program.Signals = nil
			for k := range 1 + rng.IntN(3) {
				m := []Mesh{Line(1), Line(2), Line(3), Grid(2, 2), Line(2)}[rng.IntN(5)]
				st := Stage{Mesh: m}
				for range m.Size() {
					st.Ranks = append(st.Ranks, worker)
					worker++
				}
				stages = append(stages, st)
				g := sig(fmt.Sprint("s", k))
				c.program.Signals = append(c.program.Signals, g)
				of[g] = k
			}
			for i := range c.program.Instrs {
				c.program.Instrs[i].Signal = uint16(rng.IntN(len(stages) + 1))
			}
			var inputs []StagedLayout
			for i, x := range c.inputs {
				in := StagedLayout{AnyStage, Layout{}}
				if rng.IntN(3) > 0 {
					in.Stage = rng.IntN(len(stages))
					for in.Layout = randomLayout(rng, stages[in.Stage].Mesh, x.dt, x.sh); in.Layout.partial(); {
						in.Layout = randomLayout(rng, stages[in.Stage].Mesh, x.dt, x.sh)
					}
				}
				inputs = append(inputs, in)
				c.program.Externals[i].Signal = 0
			}
			p, tr := c.stagedRandom(t, stages, of, inputs)
			sends += tr.calls[protocol.Send]
			for _, r := range p.Ranks {
				for _, s := range r.Steps {
					if s.Kind == Wait && s.Collective.Kind == protocol.Recv {
						waits++
					}
				}
			}
		})
	}
	if sends < n || waits != sends {
		t.Errorf("%d transfers, %d waited for, in %d programs", sends, waits, n)
	}
	t.Logf("%d transfers in %d programs", sends, n)
}

// stagedRandom checks every instruction on the operands that the stages had, as
// randomProgram does.
func (c *capture) stagedRandom(t *testing.T, stages []Stage, of map[tensor.Signal]int, inputs []StagedLayout) (*Plan, traffic) {
	t.Helper()
	all := keepAll(c.program)
	run := func(q *tensor.Program) (*Plan, [][]*array, traffic) {
		p, err := RewriteStages(q, stages, of, inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var parts [][]*array
		for i, x := range c.inputs {
			in := p.Inputs[i]
			parts = append(parts, split(stages[in.Stage].Mesh, in.Layout, x))
		}
		outs, tr := simulate(t, p, parts, c.scalars)
		if most := slices.Max(tr.sent); most != p.Stats.Bytes {
			t.Errorf("a rank sent %d bytes, the plan says %d", most, p.Stats.Bytes)
		}
		return p, outs, tr
	}
	p, outs, _ := run(all)
	n := len(c.inputs)
	got, tops := append(slices.Clone(c.inputs), make([]*array, len(all.Instrs))...), make([]float64, n+len(all.Instrs))
	for i, x := range c.inputs {
		tops[i] = largest(x)
	}
	if len(p.Outputs) != len(all.Instrs) {
		t.Fatalf("%d results of %d", len(p.Outputs), len(all.Instrs))
	}
	for k, out := range p.Outputs {
		got[n+out.Instr], tops[n+out.Instr] = assemble(t, stages[out.Stage].Mesh, out.Placed, outs[k])
	}
	for i := range all.Instrs {
		one, from := alone(all, i)
		var args []*array
		top := tops[n+i]
		for _, k := range from {
			args, top = append(args, got[k]), max(top, tops[k])
		}
		want := whole(t, one, args, c.scalars)[0]
		if diff := differs(got[n+i], want, 16*ulp(want.dt)*((1+top)*(1+top)+largest(want))); diff != "" {
			t.Fatalf("%%%d = %v on stage %d: %s\n%v\n%v", i, all.Instrs[i].Op, p.where[i], diff, p.Explain(), p)
		}
	}
	few, outs, tr := run(c.program)
	for k, out := range few.Outputs {
		x, top := assemble(t, stages[out.Stage].Mesh, out.Placed, outs[k])
		if diff := differs(x, got[n+out.Instr], 64*ulp(x.dt)*(1+top)*(1+top)); diff != "" {
			t.Fatalf("with few results kept, %%%d %s\n%v", out.Instr, diff, few)
		}
	}
	return few, tr
}
