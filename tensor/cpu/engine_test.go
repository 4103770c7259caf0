package cpu_test

import (
	"errors"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestAdamW wants the three operations of an AdamW update to give the formula's results,
// where they are one pass and where they are not.
func TestAdamW(t *testing.T) {
	const n = 1000
	const lr, wd, b1, b2, eps = 1e-2, 0.1, 0.9, 0.999, 1e-8
	for _, fused := range []bool{true, false} {
		s := session(t)
		p, m, v := make([]float64, n), make([]float64, n), make([]float64, n)
		g := make([]float32, n)
		p32 := make([]float32, n)
		for i := range p {
			p32[i] = float32(i%17)/7 - 1
			p[i] = float64(p32[i])
			g[i] = float32(i%13)/5 - 1
		}
		tp, tm, tv := tensor.From(s, p32), tensor.Zeros(s, tensor.F32, n), tensor.Zeros(s, tensor.F32, n)
		for step := 1; step <= 4; step++ {
			c1, c2 := 1-math.Pow(b1, float64(step)), 1-math.Pow(b2, float64(step))
			for i := range p {
				gi := float64(g[i])
				m[i] = b1*m[i] + (1-b1)*gi
				v[i] = b2*v[i] + (1-b2)*gi*gi
				p[i] = p[i]*(1-lr*wd) - lr/c1*m[i]/(math.Sqrt(v[i])/math.Sqrt(c2)+eps)
			}
			s.Scope(func(*tensor.Scope) {
				tg := tensor.From(s, g)
				nm := s.Apply(tensor.OpAdamM, nil, tensor.T(tm), tensor.T(tg), tensor.S(b1))
				nv := s.Apply(tensor.OpAdamV, nil, tensor.T(tv), tensor.T(tg), tensor.S(b2))
				np := s.Apply(tensor.OpAdamW, nil, tensor.T(tp), tensor.T(nm), tensor.T(nv),
					tensor.S(lr), tensor.S(wd), tensor.S(eps), tensor.S(c1), tensor.S(c2))
				if !fused {
					np = np.AddS(0) // the result of the update is not an output then
				}
				for _, a := range [][2]*tensor.Tensor{{tp, np}, {tm, nm}, {tv, nv}} {
					if err := a[0].Assign(a[1]); err != nil {
						t.Fatal(err)
					}
				}
			})
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := tensor.Data[float32](tp)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p {
			if math.Abs(float64(got[i])-p[i]) > 1e-5*(1+math.Abs(p[i])) {
				t.Fatalf("fused %v: element %d is %v, expected %v", fused, i, got[i], p[i])
			}
		}
	}
}

// TestSteadyStateAllocatesNothing wants a training loop in a scope to use no more memory
// after the first steps: parameters are updated in place.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := session(t)
	dev := device.Of(s.Engine())
	p := tensor.Zeros(s, tensor.F32, 1000)
	step := func() {
		s.Scope(func(*tensor.Scope) {
			if err := p.Assign(p.AddS(1)); err != nil {
				t.Fatal(err)
			}
		})
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		step()
	}
	before := dev.Stats()
	for range 10 {
		step()
	}
	after := dev.Stats()
	if after.Arena.Allocs != before.Arena.Allocs || after.Misses != before.Misses {
		t.Errorf("10 steps made %d blocks and compiled %d programs", after.Arena.Allocs-before.Arena.Allocs, after.Misses-before.Misses)
	}
	if x, err := p.Sum().Item(); err != nil || x != 13000 {
		t.Errorf("sum is %v, %v; expected 13000", x, err)
	}
}

// TestViewIsNotWrittenOver wants a view to stay as it is while its tensor is updated in
// place.
func TestViewIsNotWrittenOver(t *testing.T) {
	s := session(t)
	p := tensor.Zeros(s, tensor.F32, 100)
	err := tensor.View(p, func(x []float32) error {
		s.Scope(func(*tensor.Scope) { p.Assign(p.AddS(1)) })
		if err := s.Sync(); err != nil {
			return err
		}
		if x[0] != 0 || x[99] != 0 {
			return errors.New("the view changed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := p.Mean().Item(); err != nil || x != 1 {
		t.Errorf("afterwards %v, %v; expected 1", x, err)
	}
}

// TestFailureChangesNothing wants a failed program to leave its inputs as they were, also
// those that it would have updated in place.
func TestFailureChangesNothing(t *testing.T) {
	s := session(t)
	p := tensor.Ones(s, tensor.F32, 10)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	keep := p.Detach()
	s.Scope(func(*tensor.Scope) {
		p.Assign(p.AddS(1))
		p.IndexSelect(0, tensor.From(s, []int32{10}))
	})
	if err := s.Sync(); !errors.Is(err, tensor.ErrIndex) {
		t.Fatalf("an index out of range gave %v", err)
	}
	if _, err := p.Sum().Item(); !errors.Is(err, tensor.ErrIndex) {
		t.Errorf("the result of the failed program gave %v, expected the first error", err)
	}
	s.ClearErr()
	if x, err := keep.Sum().Item(); err != nil || x != 10 {
		t.Errorf("the old value sums to %v, %v; expected 10", x, err)
	}
	if x, err := p.Sum().Item(); err != nil || x != 20 {
		t.Errorf("the new value, which does not depend on the failure, sums to %v, %v; expected 20", x, err)
	}
}
