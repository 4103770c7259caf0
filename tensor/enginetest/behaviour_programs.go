package enginetest

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

func (s behaviours) longChain(t *testing.T) {
	sess := s.session(t)
	x := put(sess, ramp(0, 4, 4))
	for k := range 1000 {
		y := x.AddS(float64(k % 3))
		x.Free()
		x = y
	}
	got := mustRead(t, x)
	equal(t, got, ramp(999, 4, 4), nil, "result")
	if n := sess.Stats().Programs; n != 1 {
		t.Errorf("1000 operations were %d programs, expected 1", n)
	}
}

func (s behaviours) manyKept(t *testing.T) {
	sess := s.session(t)
	xs := []*tensor.Tensor{put(sess, ramp(0, 4, 4))}
	for k := range 3000 {
		xs = append(xs, xs[k].AddS(1))
	}
	for k := 0; k < len(xs); k += 250 {
		equal(t, mustRead(t, xs[k]), ramp(float64(k), 4, 4), nil, "result %d", k)
	}
	for k, x := range xs {
		if k%2 == 0 {
			x.Free()
		}
	}
	for k := 1; k < len(xs); k += 250 {
		equal(t, mustRead(t, xs[k].MulS(2)), mustRead(t, xs[k].Add(xs[k])), nil, "result %d after its neighbours were freed:", k)
	}
}

// alike wants programs of the same operations, wired or parametrised differently, to be
// different programs.
func (s behaviours) alike(t *testing.T) {
	sess := s.session(t)
	x := put(sess, ramp(0, 12))
	one := put(sess, floats(tensor.Shape{}, 1))
	ten := put(sess, floats(tensor.Shape{}, 10))
	programs := []struct {
		f    func() *tensor.Tensor
		want []float64
	}{
		{func() *tensor.Tensor { a, _ := one.Add(ten), one.Add(one); return a }, []float64{11}},
		{func() *tensor.Tensor { a, b := one.Add(ten), one.Add(ten); return a.Add(b) }, []float64{22}},
		{func() *tensor.Tensor { a, b := one.Add(ten), ten.Add(ten); return a.Add(b) }, []float64{31}},
		{func() *tensor.Tensor { a := one.Add(ten); b := a.Add(ten); return b.Add(ten) }, []float64{31}},
		{func() *tensor.Tensor { a := one.Add(ten); b := a.Add(a); return b.Add(ten) }, []float64{32}},
		{func() *tensor.Tensor { a := one.Add(ten); b := a.Add(a); return b.Add(a) }, []float64{33}},
		{func() *tensor.Tensor { return x.Reshape(2, 6).Sum(0) }, []float64{6, 8, 10, 12, 14, 16}},
		{func() *tensor.Tensor { return x.Reshape(6, 2).Sum(0) }, []float64{30, 36}},
		{func() *tensor.Tensor { return x.Reshape(3, 4).Sum(0) }, []float64{12, 15, 18, 21}},
		{func() *tensor.Tensor { return x.Reshape(3, 4).Sum(1) }, []float64{6, 22, 38}},
		{func() *tensor.Tensor { return x.Slice(tensor.To(0, 3)).MulS(2) }, []float64{0, 2, 4}},
		{func() *tensor.Tensor { return x.Slice(tensor.To(3, 6)).MulS(2) }, []float64{6, 8, 10}},
		{func() *tensor.Tensor { return x.Slice(tensor.By(0, 6, 2)).MulS(2) }, []float64{0, 4, 8}},
		{func() *tensor.Tensor { return x.Slice(tensor.To(0, 3)).MulS(3) }, []float64{0, 3, 6}},
		{func() *tensor.Tensor { return one.Sub(ten) }, []float64{-9}},
		{func() *tensor.Tensor { return ten.Sub(one) }, []float64{9}},
		{func() *tensor.Tensor { return one.SubS(4) }, []float64{-3}},
		{func() *tensor.Tensor { return one.RSubS(4) }, []float64{3}},
		{func() *tensor.Tensor { return x.Cast(tensor.I32).Max() }, []float64{11}},
		{func() *tensor.Tensor { return x.Cast(tensor.I64).Max() }, []float64{11}},
	}
	start := s.hits(sess.Engine())
	for round := range 4 {
		for k, p := range programs {
			var y *tensor.Tensor
			sess.Scope(func(sc *tensor.Scope) { y = sc.Keep(p.f()) })
			want(t, "program", y, 0, p.want...)
			if t.Failed() {
				t.Fatalf("in round %d of program %d", round, k)
			}
			y.Free()
		}
	}
	if n := s.hits(sess.Engine()) - start; s.o.PlanHits != nil && n < uint64(2*len(programs)) {
		t.Errorf("%d programs ran four times, and %d runs found their plan", len(programs), n)
	}
}

// oneOrMany runs the same loop with a program a step, and with a program an operation,
// and wants equal bits. Its shapes change from step to step and come back.
func (s behaviours) oneOrMany(t *testing.T) {
	run := func(flush bool) []*array {
		sess := tensor.NewSession(s.start(t), &tensor.SessionOptions{Seed: 5})
		defer sess.Close()
		op := func(x *tensor.Tensor) *tensor.Tensor {
			if flush {
				if err := sess.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			return x
		}
		var got []*array
		total := op(tensor.Zeros(sess, tensor.F32))
		for k, sh := range [][2]int{{4, 4}, {4, 4}, {2, 8}, {4, 4}, {3, 5}, {2, 8}, {16, 33}, {4, 4}} {
			x := op(tensor.RandN(sess, tensor.F32, sh[0], sh[1]))
			h := op(x.AddS(float64(k)))
			h = op(op(h.Mul(x)).Sub(op(x.MeanKeep(1)))) // a name used again
			left, right := op(h.ReLU()), op(h.Neg().Exp())
			y := op(op(left.Add(right)).Matmul(op(x.T()))) // a branch comes together
			z := op(op(y.Reshape(sh[0] * sh[0])).Sum())
			total = op(total.Add(op(z.MulS(0.01))))
			if k%2 == 1 {
				got = append(got, mustRead(t, total), mustRead(t, y))
			}
		}
		n := sess.Stats().Programs
		if flush && n < 50 || !flush && n > 8 {
			t.Errorf("%d programs ran with flush %v", n, flush)
		}
		return append(got, mustRead(t, total))
	}
	one, many := run(false), run(true)
	for k := range one {
		equal(t, one[k], many[k], nil, "read %d, in few programs against many:", k)
	}
}
