package shard

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

func sig(name string) tensor.Signal { return tensor.Signal{Name: name} }

// placed rewrites the recorded program with its inputs in the layouts of the hints,
// simulates it, and compares it with one worker.
func (c *capture) placed(t *testing.T, m Mesh, o *Options) (*Plan, traffic) {
	t.Helper()
	layouts, err := Place(c.program, m, o.Signals)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]*array
	for i, x := range c.inputs {
		parts = append(parts, split(m, layouts[i], x))
	}
	p, err := Rewrite(c.program, m, layouts, o)
	if err != nil {
		t.Fatal(err)
	}
	outs, tr := simulate(t, p, parts, c.scalars)
	tr.check(t, p)
	want := whole(t, c.program, c.inputs, c.scalars)
	for k, out := range p.Outputs {
		got, top := assemble(t, m, out.Placed, outs[k])
		if diff := differs(got, want[out.Instr], 1e-5*(0.01+top)); diff != "" {
			t.Errorf("%%%d %v %s", out.Instr, c.program.Instrs[out.Instr].Op, diff)
		}
	}
	if t.Failed() {
		t.Log(p.Explain())
	}
	return p, tr
}

func values(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	return x
}

// columnsThenRows records a layer by columns followed by one by rows (Shoeybi et al.
// 2019, section 3).
func columnsThenRows(t *testing.T) *capture {
	return record(t, func(s *tensor.Session) []*tensor.Tensor {
		var x, a, b *tensor.Tensor
		s.Signal("batch", func() { x = tensor.From(s, values(12*6), 12, 6) })
		s.Signal("columns", func() { a = tensor.From(s, values(6*10), 6, 10) })
		s.Signal("rows", func() { b = tensor.From(s, values(10*5), 10, 5) })
		return []*tensor.Tensor{x.Matmul(a).ReLU().Matmul(b).Exp()}
	})
}

func TestColumnThenRow(t *testing.T) {
	c := columnsThenRows(t)
	for _, n := range []int{1, 2, 3, 4} {
		p, tr := c.placed(t, Line(n), &Options{Signals: Signals{sig("columns"): {Layout: On(Shard(1))}, sig("rows"): {Layout: On(Shard(-2))}}})
		if want := min(n-1, 1); tr.calls[protocol.AllReduce] != want || len(tr.calls) != want {
			t.Errorf("%d workers: %v, expected %d all-reduce", n, tr.calls, want)
		}
		if want := int64(2 * 4 * 12 * 5 * (n - 1) / n); p.Stats.Bytes != want {
			t.Errorf("%d workers: a rank sends %d bytes, the formula says %d", n, p.Stats.Bytes, want)
		}
	}
}

// TestSignalsChangeNothing: every hint may be left out; the numbers are the same, and
// without hints nothing moves.
func TestSignalsChangeNothing(t *testing.T) {
	c := columnsThenRows(t)
	all := Signals{sig("batch"): {Layout: On(Shard(0))}, sig("columns"): {Layout: On(Shard(1))}, sig("rows"): {Layout: On(Shard(0))}}
	for drop := range 8 {
		g, k := Signals{sig("nobody"): {Layout: On(Shard(5))}}, 0
		for _, n := range []string{"batch", "columns", "rows"} {
			if drop>>k&1 == 0 {
				g[sig(n)] = all[sig(n)]
			}
			k++
		}
		if _, tr := c.placed(t, Line(3), &Options{Signals: g}); len(g) == 1 && len(tr.calls) > 0 {
			t.Errorf("without hints: %v", tr.calls)
		}
	}
}

// TestNestedSignals: the inner of nested scopes counts, a tensor's own name takes
// precedence, and a tensor smaller than the number of workers is cut too.
func TestNestedSignals(t *testing.T) {
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		var x, y, z *tensor.Tensor
		s.Signal("outer", func() {
			x = tensor.From(s, values(12), 3, 4)
			s.Signal("inner", func() { y = tensor.From(s, values(12), 3, 4) })
			s.Signal("silent", func() { z = tensor.From(s, values(12), 3, 4) })
		})
		w := tensor.From(s, values(1), 1).Signal("outer")
		return []*tensor.Tensor{x.Add(y), z.AddS(1), w.AddS(1)}
	})
	g := Signals{sig("outer"): {Layout: On(Shard(0))}, sig("inner"): {Layout: On(Shard(1))}}
	l, err := Place(c.program, Line(4), g)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(l), "[[S(0) R] [S(1) R] [R R] [S(0) R]]"; got != want {
		t.Errorf("inputs lie %s, expected %s", got, want)
	}
	c.placed(t, Line(4), &Options{Signals: g})
}

// TestSignalsOfLeaves: leaves are made in the layout of their hint, and all ranks
// together draw the numbers of one worker.
func TestSignalsOfLeaves(t *testing.T) {
	c := record(t, func(s *tensor.Session) (out []*tensor.Tensor) {
		s.Signal("cut", func() {
			out = append(out, tensor.Zeros(s, tensor.F32, 10, 3), tensor.RandN(s, tensor.F32, 10, 3), tensor.Arange(s, tensor.I64, 0, 1, 9), tensor.Full(s, tensor.F32, 2))
		})
		return out
	})
	p, _ := c.placed(t, Line(4), &Options{Signals: Signals{sig("cut"): {Layout: On(Shard(0))}}})
	for k, want := range []Layout{On(Shard(0)), On(Shard(0)), On(Shard(0)), {}} {
		if got := p.Outputs[k].Layout; got != want {
			t.Errorf("result %d lies %v, expected %v", k, got, want)
		}
	}
	if p.Stats.Bytes != 0 {
		t.Errorf("%v", p.Stats)
	}
}

// TestSequenceSharding: a named result is brought to the layout of its hint. With
// sequence sharding between two layers that are cut by columns and rows, an all-reduce
// becomes a reduce-scatter and an all-gather (Korthikanti et al. 2022, section 4.2.2).
func TestSequenceSharding(t *testing.T) {
	const batch, seq, hidden, wide, n = 2, 6, 4, 32, 2
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		var x, a, b, d *tensor.Tensor
		x = tensor.From(s, values(batch*seq*hidden), batch, seq, hidden)
		s.Signal("columns", func() {
			a, d = tensor.From(s, values(hidden*wide), hidden, wide), tensor.From(s, values(hidden*wide), hidden, wide)
		})
		s.Signal("rows", func() { b = tensor.From(s, values(wide*hidden), wide, hidden) })
		h := x.Matmul(a).ReLU().Matmul(b).Signal("sequence")
		h = h.Softmax(-1).MulS(3).Tanh()
		return []*tensor.Tensor{h.Matmul(d).Exp()}
	})
	g := Signals{sig("columns"): {Layout: On(Shard(1))}, sig("rows"): {Layout: On(Shard(0))}}
	before, _ := c.placed(t, Line(n), &Options{Signals: g})
	g[sig("sequence")] = Hint{Layout: On(Shard(1))}
	p, tr := c.placed(t, Line(n), &Options{Signals: g})
	if tr.calls[protocol.ReduceScatter] != 1 || tr.calls[protocol.AllGather] != 1 || len(tr.calls) != 2 {
		t.Errorf("%v, expected a reduce-scatter and an all-gather\n%s", tr.calls, p.Explain())
	}
	// (n-1)/n of the activation each way, as many bytes as the all-reduce moved.
	if want := int64(2 * 4 * batch * seq * hidden * (n - 1) / n); p.Stats.Bytes != want || before.Stats.Bytes != want {
		t.Errorf("a rank sends %d bytes, without sequence sharding %d; the formula says %d of both", p.Stats.Bytes, before.Stats.Bytes, want)
	}
	t.Logf("%v; without: %v", p.Stats, before.Stats)
}

// TestNamedInput: an input that is named after it got another layout is brought to the
// layout of its name.
func TestNamedInput(t *testing.T) {
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		x := tensor.From(s, values(12), 4, 3).Signal("late")
		return []*tensor.Tensor{x.AddS(1), x.MulS(2)}
	})
	p, err := Rewrite(c.program, Line(2), []Layout{On(Shard(1))}, &Options{Signals: Signals{sig("late"): {Layout: On(Shard(0))}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Stats.Collectives[protocol.AllToAll] != 1 || p.Outputs[0].Layout != On(Shard(0)) || p.Outputs[1].Layout != On(Shard(0)) {
		t.Errorf("%s", p.Explain())
	}
}

func TestBadHints(t *testing.T) {
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		var x *tensor.Tensor
		s.Signal("made", func() { x = tensor.From(s, values(10), 10) })
		return []*tensor.Tensor{x.AddS(1).Signal("named")}
	})
	for name, g := range map[string]Signals{
		"named":  {sig("named"): {Layout: On(Shard(1))}},
		"made":   {sig("made"): {Layout: On(Shard(0)), Even: true}},
		"terms":  {sig("terms"): {Layout: On(Partial(Sum))}},
		"second": {sig("second"): {Layout: On(Replicate, Shard(0))}},
	} {
		l, err := Place(c.program, Line(4), g)
		if err == nil {
			_, err = Rewrite(c.program, Line(4), l, &Options{Signals: g})
		}
		if !errors.Is(err, ErrPlacement) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A scope's hint for a dim that a tensor lacks has no effect.
	if l, err := Place(c.program, Line(4), Signals{sig("made"): {Layout: On(Shard(1))}}); err != nil || l[0] != (Layout{}) {
		t.Errorf("%v, %v", l, err)
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"*", "anything", true}, {"a*", "a", true}, {"a*", "ba", false},
		{"blocks.*.up", "blocks.0.up", true}, {"blocks.*.up", "blocks.0.1.up", true}, {"blocks.*.up", "blocks.0.upper", false},
		{"*.w", ".w", true}, {"a*a", "a", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "acb", false}, {"**", "x", true},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.name, got)
		}
	}
	g := Signals{sig("a*"): {Layout: On(Shard(1))}, sig("a.b*"): {Layout: On(Shard(2))}, sig("a.b.c"): {Layout: On(Shard(3))}}
	for name, want := range map[string]int{"ax": 1, "a.bx": 2, "a.b.c": 3} {
		if h, ok := find(g, sig(name)); !ok || h.Layout != On(Shard(want)) {
			t.Errorf("%s: %v, %v", name, h, ok)
		}
	}
	if _, ok := find(g, tensor.Signal{Name: "ax", Backward: true}); ok {
		t.Error("a backward signal has a forward one's hint")
	}
}

func TestExplainSignals(t *testing.T) {
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		var x, z *tensor.Tensor
		s.Signal("batch", func() { x, z = tensor.From(s, values(12), 3, 4), tensor.Zeros(s, tensor.F32) })
		w := tensor.From(s, values(4), 4).Signal("block.0.w")
		return []*tensor.Tensor{x.Add(w).Signal("sum"), z.AddS(1)}
	})
	g := Signals{sig("batch"): {Layout: On(Shard(0))}, sig("block.*"): {Layout: On(Replicate, Shard(-1))}, sig("sum"): {}, sig("typo"): {}}
	const want = `in0 f32[3 4]: batch cuts it in dim 0 along data
in1 f32[4]: block.0.w cuts it in dim 0 along model
%0 full f32[]: batch does not apply to a tensor of 0 dims
%1 add f32[3 4]: sum keeps it whole
typo: no tensor of the program has it
`
	if got := g.Explain(c.program, Grid(2, 2)); got != want {
		t.Errorf("says\n%s\nexpected\n%s", got, want)
	}
}

// TestAutoFollowsSignals: Auto follows hints and chooses the other layouts.
func TestAutoFollowsSignals(t *testing.T) {
	c := record(t, func(s *tensor.Session) []*tensor.Tensor {
		x := tensor.From(s, values(64*512), 64, 512)
		w := tensor.From(s, values(512*1024), 512, 1024).Signal("w")
		return []*tensor.Tensor{x.Matmul(w).ReLU()}
	})
	o := &AutoOptions{LargeBytes: 1 << 20, Signals: Signals{sig("w"): {Layout: On(Shard(0))}}}
	got, err := Auto(c.program, Line(2), o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Inputs[1] != On(Shard(0)) || !strings.Contains(got.Why, "everything but what signals say") {
		t.Errorf("%v\n%s", got.Inputs, got.Why)
	}
	o.Signals = nil
	free, err := Auto(c.program, Line(2), o)
	if err != nil {
		t.Fatal(err)
	}
	if free.Inputs[1] == On(Shard(0)) {
		t.Errorf("without hints the same was chosen: %v", free.Inputs)
	}
}

// TestHintsOfState: state lies as its parameter does, and is cut further where the
// parameter is whole.
func TestHintsOfState(t *testing.T) {
	g := Signals{sig("state"): {Layout: On(Shard(0))}, sig("w*"): {Layout: On(Replicate, Shard(1))}, sig("v"): {Layout: On(Shard(1)), Even: true}, sig("state/own"): {Layout: On(Shard(3))}}
	for name, want := range map[string]Hint{
		"state":         {Layout: On(Shard(0))},
		"state/wide":    {Layout: On(Shard(0), Shard(1))},
		"state/v":       {Layout: On(Shard(1)), Even: true},
		"state/own":     {Layout: On(Shard(3))},
		"state/nobody":  {Layout: On(Shard(0))},
		"other/wide":    {Layout: On(Replicate, Shard(1))},
		"state/x/wide":  {Layout: On(Shard(0), Shard(1))},
		"nobody/nobody": {},
	} {
		if h, ok := g.hint(sig(name)); h != want || ok != (want != Hint{}) {
			t.Errorf("%s: %v, %v, expected %v", name, h, ok, want)
		}
	}
}
