package cpu_test

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// encodedPlus is a program of n additions.
func encodedPlus(n int) []byte {
	var b builder
	x, one := b.in(tensor.F32, false, 4), b.scalar()
	for range n {
		x = b.op(tensor.OpAdd, tensor.F32, []int{4}, nil, x, one)
	}
	b.keep(x)
	return b.Append(nil)
}

func TestPlanCache(t *testing.T) {
	d, err := cpu.New(&cpu.Options{Plans: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	get := func(n int) *cpu.Compiled {
		t.Helper()
		e := encodedPlus(n)
		c, err := d.Compile(tensor.HashOf(e), e)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := get(1)
	get(2)
	get(3)
	if get(1) != first {
		t.Error("a program was compiled twice")
	}
	get(4) // 2 goes
	if get(1) != first {
		t.Error("the program that was used last went first")
	}
	get(2)
	if s := d.Stats(); s.Hits != 2 || s.Misses != 5 || s.Evicted != 2 || s.Plans != 3 {
		t.Errorf("%d hits, %d misses, %d evicted, %d kept; expected 2, 5, 2, 3", s.Hits, s.Misses, s.Evicted, s.Plans)
	}
}

// A hash alone is never believed.
func TestPlanOfAnotherHash(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	one, two := encodedPlus(1), encodedPlus(2)
	if _, err := d.Compile(tensor.HashOf(one), one); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Compile(tensor.HashOf(one), two); !errors.Is(err, tensor.ErrProgram) {
		t.Errorf("another program under a known hash gave %v, expected ErrProgram", err)
	}
	if _, err := d.Compile(tensor.HashOf(one[:40]), one[:40]); !errors.Is(err, tensor.ErrProgram) {
		t.Errorf("half a program gave %v, expected ErrProgram", err)
	}
}

// Epochs whose last batch is smaller are two programs, however many epochs there are and whatever the scalars.
func TestPlansOfALastSmallerBatch(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := tensor.NewSession(cpu.NewEngine(d), nil)
	defer s.Close()
	w := tensor.Full(s, tensor.F32, 0.5, 6, 1).RequireGrad()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	before := d.Stats()
	steps := 0
	for epoch := range 4 {
		for at := 0; at < 19; at += 4 {
			rows := min(4, 19-at)
			x := make([]float32, rows*6)
			for i := range x {
				x[i] = float32((at*6+i)*7%11) - 5
			}
			s.Scope(func(*tensor.Scope) {
				g, err := autograd.Grad(tensor.From(s, x, rows, 6).Matmul(w).Square().Mean(), w)
				if err != nil {
					t.Fatal(err)
				}
				s.NoGrad(func() {
					if err := w.Assign(w.Sub(g[0].MulS(0.01 / float64(steps+1+epoch)))); err != nil {
						t.Fatal(err)
					}
				})
			})
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			steps++
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	after := d.Stats()
	if m, h := after.Misses-before.Misses, after.Hits-before.Hits; m != 2 || h != uint64(steps-2) {
		t.Errorf("%d programs were compiled and %d were known in %d steps; expected 2 and the rest", m, h, steps)
	}
}
