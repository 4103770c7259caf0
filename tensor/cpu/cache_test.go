package cpu_test

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// encodedPlus returns a program of n additions.
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
	get := func(n int) device.Program {
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

// TestPlanOfAnotherHash wants a hash alone never to be enough to run a plan.
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

// TestPlansInRotation runs three programs in rotation with room for two plans: each is
// compiled every time and computes the same.
func TestPlansInRotation(t *testing.T) {
	d, err := cpu.New(&cpu.Options{Plans: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := tensor.NewSession(device.NewEngine(d), nil)
	defer s.Close()
	const rounds = 4
	for i := range rounds {
		for n := 1; n <= 3; n++ {
			var y *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) {
				x := tensor.Full(s, tensor.F32, float64(i), n)
				for range n {
					x = x.MulS(2).AddS(1)
				}
				y = sc.Keep(x.Sum())
			})
			want := float64(i)
			for range n {
				want = want*2 + 1
			}
			if got, err := y.Item(); err != nil || got != want*float64(n) {
				t.Errorf("round %d, program %d gave %v, %v; expected %v", i, n, got, err, want*float64(n))
			}
		}
	}
	if st := d.Stats(); st.Hits != 0 || st.Misses != 3*rounds || st.Evicted != 3*rounds-2 || st.Plans != 2 || st.PlanBytes == 0 {
		t.Errorf("%d hits, %d compiled, %d evicted, %d plans of %d bytes; expected 0, %d, %d, 2", st.Hits, st.Misses, st.Evicted, st.Plans, st.PlanBytes, 3*rounds, 3*rounds-2)
	}
}

// TestPlansOfALastSmallerBatch wants epochs with a smaller last batch to be two programs,
// for any number of epochs and any scalars.
func TestPlansOfALastSmallerBatch(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := tensor.NewSession(device.NewEngine(d), nil)
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
