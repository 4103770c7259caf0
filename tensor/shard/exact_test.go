package shard

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// exactly runs the step in parts and returns the bytes of its kept results.
func (s *step) exactly(t *testing.T, ranks, parts int, place func(i int) Layout) (out [][]byte, p *Plan) {
	t.Helper()
	var layouts []Layout
	var ins [][]*array
	for i, x := range s.inputs {
		layouts, ins = append(layouts, place(i)), append(ins, split(Line(ranks), place(i), x))
	}
	p, err := Rewrite(s.program, Line(ranks), layouts, &Options{Parts: parts})
	if err != nil {
		t.Fatal(err)
	}
	outs, _ := simulate(t, p, ins, s.scalars)
	for k, o := range p.Outputs {
		x, _ := assemble(t, p.Mesh, o.Placed, outs[k])
		out = append(out, x.bytes())
	}
	return out, p
}

// state has the moments of the optimizer cut by rows as well (ZeRO-1).
func (s *step) state(rows func(i int) Layout) func(i int) Layout {
	moments := map[int]bool{}
	for i, in := range s.program.Instrs {
		if in.Op == tensor.OpAdamM || in.Op == tensor.OpAdamV {
			if k, ok := s.program.ArgsOf(i)[0].External(); ok {
				moments[k] = true
			}
		}
	}
	return func(i int) Layout {
		if moments[i] {
			return On(Shard(0))
		}
		return rows(i)
	}
}

// TestExact: with parts, a step has the same bits on every number of ranks, with and
// without a sharded optimizer state, and up to rounding those of one program.
func TestExact(t *testing.T) {
	for name, rows := range map[string]int{"mlp": 24, "gpt": 12} {
		s := mlpStep(t, rows)
		if name == "gpt" {
			s = gptStep(t, rows)
		}
		for _, parts := range []int{12, 6, 3} {
			if parts < 12 && testing.Short() {
				continue
			}
			s.run(t, Line(3), s.state(s.data(rows)), &Options{Parts: parts})
			var want [][]byte
			for ranks := 1; ranks <= parts; ranks++ {
				if parts%ranks != 0 {
					continue
				}
				for _, zero1 := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s in %d on %d, zero1 %v", name, parts, ranks, zero1), func(t *testing.T) {
						place := s.data(rows)
						if zero1 {
							place = s.state(place)
						}
						got, p := s.exactly(t, ranks, parts, place)
						if want == nil {
							want = got
						}
						for k := range got {
							if i := p.Outputs[k].Instr; !bytes.Equal(got[k], want[k]) {
								t.Errorf("%%%d %v has other bits than on one rank", i, s.program.Instrs[i].Op)
							}
						}
					})
				}
			}
		}
	}
}

// TestExactReductions has results of reductions of all kinds over the dim that is cut,
// and of the whole of what is cut. simulate fails if a value is left behind.
func TestExactReductions(t *testing.T) {
	const rows = 24
	e := &step{Engine: enginetest.Reference()}
	s := tensor.NewSession(e, nil)
	values := make([]float32, rows*6)
	data.FillUniform(values, "x", -1, 2)
	x := tensor.From(s, values, rows, 6)
	sum := x.Sum(0)
	outs := []*tensor.Tensor{
		x.Mean(0), x.Max(0), x.Min(), x.Prod(0), x.Var(0, 0), x.LogSumExp(0), x.ArgmaxAll(), x.Argmax(0),
		x.Gt(x.Mean()).Any(), x.Gt(x.Mean()).All(), sum, x.Sub(sum).Sum(0), x.Reshape(-1).Sum(), x.Reshape(4, -1),
		x.Cast(tensor.F16).Sum(0), x.T().Matmul(x), x.Softmax(0),
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	place := func(i int) Layout {
		if e.inputs[i].sh[0] == rows {
			return On(Shard(0))
		}
		return Layout{}
	}
	var want [][]byte
	for _, ranks := range []int{1, 2, 3, 4, 6, 12} {
		got, p := e.exactly(t, ranks, 12, place)
		if want == nil {
			want = got
		}
		for k := range got {
			if i := p.Outputs[k].Instr; !bytes.Equal(got[k], want[k]) {
				t.Errorf("%d ranks: %%%d %v has other bits than on one rank", ranks, i, e.program.Instrs[i].Op)
			}
		}
	}
	runtime.KeepAlive(outs)
}

// TestExactPrograms: a part has one program, whichever part it is and however many ranks
// there are.
func TestExactPrograms(t *testing.T) {
	s := gptStep(t, 12)
	seen := map[tensor.Hash]int{}
	for _, ranks := range []int{1, 2, 3, 6} {
		_, p := s.exactly(t, ranks, 6, s.data(12))
		for _, r := range p.Ranks {
			for _, step := range r.Steps {
				if step.Kind == RunProgram && len(step.Run.Program.Instrs) > 100 {
					seen[tensor.HashOf(step.Run.Program.Append(nil))]++
				}
			}
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d large programs, expected the one of forward and backward", len(seen))
	}
	for _, n := range seen {
		if n < 4*6 {
			t.Errorf("it runs %d times for six parts on four meshes", n)
		}
	}
}

// TestExactRefuses: what can't be cut in equal parts is an error that says what could.
func TestExactRefuses(t *testing.T) {
	s := mlpStep(t, 10)
	layouts := make([]Layout, len(s.inputs))
	for i := range layouts {
		layouts[i] = s.data(10)(i)
	}
	for _, c := range []struct {
		m    Mesh
		o    Options
		is   error
		says string
	}{
		{Line(2), Options{Parts: 4}, ErrPlacement, "expected a multiple of 4"},
		{Line(3), Options{Parts: 4}, ErrMesh, "divides"},
		{Grid(2, 2), Options{Parts: 4}, ErrMesh, "one dim"},
		{Line(2), Options{Parts: 2, Outputs: map[int]Layout{0: {}}}, ErrPlacement, "exclude"},
	} {
		if _, err := Rewrite(s.program, c.m, layouts, &c.o); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v of %v parts: %v", c.m, c.o.Parts, err)
		}
	}
}
