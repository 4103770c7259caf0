package compile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// capture is an engine that keeps the last program.
type capture struct{ p *tensor.Program }

type heap []byte

func (h heap) Bytes() []byte { return h }
func (h heap) Release()      {}

func (c *capture) Name() string                       { return "capture" }
func (c *capture) Alloc(n int) (tensor.Buffer, error) { return heap(make([]byte, n)), nil }
func (c *capture) Close() error                       { return nil }
func (c *capture) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		c.p = b.Program.Clone()
	}
	return nil, nil
}

// planOf compiles the program that f records, with a step for every operation. The inputs
// are uploaded before.
func planOf(t *testing.T, f func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor)) *Plan {
	t.Helper()
	return planWith(t, &Options{NoFuse: true}, f)
}

func planWith(t *testing.T, o *Options, f func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor)) *Plan {
	t.Helper()
	c := &capture{}
	s := tensor.NewSession(c, nil)
	x, y := tensor.From(s, make([]float32, 6), 2, 3), tensor.From(s, make([]float32, 6), 2, 3)
	s.Scope(func(sc *tensor.Scope) { f(s, sc, x, y) })
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	p := Compile(c.p, o)
	checkPlan(t, p)
	return p
}

// checkPlan verifies two invariants of every plan: no buffer is read before it is
// written, and no two temporaries that live at one time share memory.
func checkPlan(t *testing.T, p *Plan) {
	t.Helper()
	written := make([]bool, len(p.Buffers))
	type use struct{ first, last int }
	uses := map[int]*use{}
	for k, s := range p.Steps {
		for _, o := range s.In {
			if o.Scalar < 0 && p.Buffers[o.Buf].Place != External && !written[o.Buf] {
				t.Errorf("step %d reads %s before it is written\n%v", k, p.OperandString(o), p)
			}
		}
		all := append([]Operand{}, s.In...)
		for _, o := range s.Outs() {
			written[o.Buf] = true
			if (!o.Dense || o.Off != 0) && s.Fused != Attention && s.Fused != AttentionGrad {
				t.Errorf("step %d writes %s", k, p.OperandString(*o))
			}
			all = append(all, *o)
		}
		for _, o := range all {
			if o.Scalar >= 0 {
				continue
			}
			if uses[o.Buf] == nil {
				uses[o.Buf] = &use{k, k}
			}
			uses[o.Buf].last = k
		}
	}
	for i, a := range uses {
		for j, b := range uses {
			x, y := p.Buffers[i], p.Buffers[j]
			if i < j && x.Place == Temp && y.Place == Temp && a.first <= b.last && b.first <= a.last &&
				x.Off < y.Off+y.Size && y.Off < x.Off+x.Size {
				t.Errorf("buffers %d and %d overlap in time and place\n%v", i, j, p)
			}
		}
	}
	for _, o := range p.Outputs {
		if !written[o.Buf] {
			t.Errorf("result of instruction %d is never written", o.Instr)
		}
	}
}

func TestViewsCostNothing(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.T().Matmul(y))
	})
	if p.Stats.Copies != 0 || len(p.Steps) != 1 {
		t.Errorf("a product of a transposed operand takes\n%v", p)
	}
	p = planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Slice(tensor.Every(), tensor.To(1, 3)).Reshape(2, 2, 1).Expand(2, 2, 5).Add(y.Reshape(6).Narrow(0, 1, 5)))
	})
	if p.Stats.Copies != 0 || len(p.Steps) != 1 {
		t.Errorf("a chain of views takes\n%v", p)
	}
}

func TestKeptViewIsItsOwn(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Reshape(6))
		sc.Keep(x.T())
	})
	if len(p.Outputs) != 2 || p.Stats.Copies != 2 {
		t.Errorf("two kept views take\n%v", p)
	}
}

func TestReshapeCopiesOnlyWhereItMust(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.T().Reshape(6).Neg())
	})
	if p.Stats.Copies != 1 {
		t.Errorf("reshape of a transposed tensor takes\n%v", p)
	}
	for _, c := range []struct {
		old     tensor.Shape
		strides []int
		to      tensor.Shape
		want    string
	}{
		{tensor.Shape{2, 3, 4}, []int{12, 4, 1}, tensor.Shape{6, 4}, "[4 1] true"},
		{tensor.Shape{2, 3, 4}, []int{24, 8, 2}, tensor.Shape{24}, "[2] true"},
		{tensor.Shape{4, 3}, []int{1, 4}, tensor.Shape{2, 2, 3}, "[2 1 4] true"},
		{tensor.Shape{4, 3}, []int{1, 4}, tensor.Shape{12}, "[] false"},
		{tensor.Shape{4}, []int{-1}, tensor.Shape{2, 2}, "[-2 -1] true"},
		{tensor.Shape{5, 1, 3}, []int{0, 0, 1}, tensor.Shape{5, 3}, "[0 1] true"},
		{tensor.Shape{5, 3}, []int{0, 1}, tensor.Shape{15}, "[] false"},
		{tensor.Shape{2, 2}, []int{0, 0}, tensor.Shape{4, 1}, "[0 0] true"},
		{tensor.Shape{}, nil, tensor.Shape{1, 1}, "[1 1] true"},
		{tensor.Shape{0, 3}, []int{3, 1}, tensor.Shape{3, 0}, "[0 1] true"},
	} {
		st, ok := reshape(c.old, c.strides, c.to)
		if got := fmt.Sprint(st, ok); got != c.want {
			t.Errorf("%v/%v as %v: %s, expected %s", c.old, c.strides, c.to, got, c.want)
		}
	}
}

func TestDeadCodeButNotItsErrors(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		x.Exp().Sum()
		x.IndexSelect(0, tensor.From(s, []int32{1}))
		sc.Keep(y.Neg())
	})
	if p.Stats.Dead != 2 || len(p.Steps) != 2 {
		t.Errorf("%d dead, steps:\n%v", p.Stats.Dead, p)
	}
}

func TestElementwiseChainsRunInPlace(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.Add(y).Exp().MulS(2).Sub(y).Sum())
	})
	if p.Stats.InPlace != 3 || p.Temp != Align {
		t.Errorf("in place %d, arena %d:\n%v", p.Stats.InPlace, p.Temp, p)
	}
	p = planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		e := x.Exp().Slice(tensor.Every(), tensor.By(tensor.All, tensor.All, -1))
		sc.Keep(e.Add(x).Sum())
		f := y.Exp().Reshape(3, 2)
		sc.Keep(f.Add(f.Permute(0, 1)).Sum())
	})
	if p.Stats.InPlace != 1 {
		t.Errorf("an operand read backward must not be written over; in place %d:\n%v", p.Stats.InPlace, p)
	}
}

func TestDonation(t *testing.T) {
	free := func(t *testing.T, f func(sc *tensor.Scope, s *tensor.Session, x, y *tensor.Tensor)) *Plan {
		return planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			f(sc, s, x, y)
			x.Free()
		})
	}
	p := free(t, func(_ *tensor.Scope, s *tensor.Session, x, y *tensor.Tensor) {
		if err := y.Assign(x.Sub(y.MulS(0.1))); err != nil {
			t.Fatal(err)
		}
	})
	if p.Stats.Taken != 1 {
		t.Errorf("an update doesn't take the memory of what it replaces:\n%v", p)
	}
	for name, f := range map[string]func(sc *tensor.Scope, s *tensor.Session, x, y *tensor.Tensor){
		"read afterwards": func(sc *tensor.Scope, s *tensor.Session, x, y *tensor.Tensor) {
			sc.Keep(x.AddS(1))
			y.Assign(x.Sum(0).Expand(2, 3).Neg())
		},
		"read in another order": func(sc *tensor.Scope, s *tensor.Session, x, y *tensor.Tensor) {
			y.Assign(x.Add(x.Flip(0)))
		},
		"may fail later": func(sc *tensor.Scope, s *tensor.Session, x, y *tensor.Tensor) {
			y.Assign(x.AddS(1))
			y.IndexSelect(0, tensor.From(s, []int32{0}))
		},
	} {
		p := free(t, f)
		for _, o := range p.Outputs {
			if o.Take >= 0 && p.Program.Instrs[o.Instr].Op == tensor.OpAdd {
				t.Errorf("%s: takes the memory of in%d:\n%v", name, o.Take, p)
			}
		}
	}
}

func TestArenaIsNearItsLowerBound(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		a := x
		for i := range 20 {
			n := 16 + 8*(i%5)
			a = a.Sum().Expand(n, n).Exp().Matmul(tensor.Ones(s, tensor.F32, n, n))
		}
		sc.Keep(a.Sum())
	})
	if p.Stats.TempBytes > p.Stats.LowerBound*5/4 || p.Stats.LowerBound == 0 {
		t.Errorf("arena of %d bytes, at most %d are alive at once", p.Stats.TempBytes, p.Stats.LowerBound)
	}
}

func TestPlanPrints(t *testing.T) {
	p := planOf(t, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) { sc.Keep(x.T().AddS(1)) })
	if got, want := p.String(), "out0:f32[3 2] = add in0:f32[3 2]/[1 3]+0 s0\nout0 is %1\n"; got != want {
		t.Errorf("printed\n%s\nexpected\n%s", got, want)
	}
	if strings.Count(p.String(), "\n") != 2 {
		t.Error("a line a step and a line a result")
	}
}

// TestUnfused: a program that says so has the steps of Options.NoFuse.
func TestUnfused(t *testing.T) {
	record := func(o *tensor.SessionOptions) *tensor.Program {
		c := &capture{}
		s := tensor.NewSession(c, o)
		x := tensor.From(s, make([]float32, 6), 2, 3)
		s.Scope(func(sc *tensor.Scope) { sc.Keep(x.MulS(2).AddS(1).ReLU()) })
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		return c.p
	}
	fused, unfused := Compile(record(nil), nil), Compile(record(&tensor.SessionOptions{Unfused: true}), nil)
	if len(fused.Steps) != 1 || len(unfused.Steps) != 3 {
		t.Errorf("%d and %d steps, expected 1 and 3", len(fused.Steps), len(unfused.Steps))
	}
}
