package enginetest

import (
	"errors"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
)

// updates wants a name that is assigned to show the new value from then on, and earlier
// results to keep the old one.
func (s behaviours) updates(t *testing.T) {
	sess := s.session(t)
	w := put(sess, ramp(10, 3))
	before := w.MulS(2)
	view := w.Reshape(3, 1)
	old := w.Detach()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.SubAssign(put(sess, ramp(1, 3))))
	after := w.MulS(2)
	want(t, "w -= x", w, 0, 9, 9, 9)
	want(t, "what was computed before", before, 0, 20, 22, 24)
	want(t, "a view taken before", view, 0, 10, 11, 12)
	want(t, "another name of the old value", old, 0, 10, 11, 12)
	want(t, "what was computed after", after, 0, 18, 18, 18)
	must(w.Assign(w.SubS(5)))
	must(w.MulAssign(w))
	must(w.AddAssign(w.Sum().Expand(3)))
	want(t, "a sequence of updates", w, 0, 64, 64, 64)
	for k := range 200 {
		sess.Scope(func(*tensor.Scope) {
			g := w.MulS(0).AddS(1)
			must(w.SubAssign(g))
		})
		if k%3 == 0 {
			must(sess.Flush())
		}
	}
	want(t, "200 updates in scopes", w, 0, 64-200, 64-200, 64-200)
	want(t, "still what was computed before", before, 0, 20, 22, 24)
	must(w.ZeroAssign())
	want(t, "zero", w, 0, 0, 0, 0)
	if err := w.Assign(put(sess, ramp(0, 4))); !errors.Is(err, tensor.ErrShape) {
		t.Errorf("assigning another shape gave %v", err)
	}
	sess.ClearErr()
}

func (s behaviours) leastSquares(t *testing.T) {
	sess := s.session(t)
	const rows, cols = 40, 3
	x := newArray(tensor.F32, tensor.Shape{rows, cols})
	for k := range x.f {
		x.f[k] = float64(data.Unit(data.Key("least squares"), uint64(k)))
	}
	truth := []float64{1.5, -2, 0.25}
	y := newArray(tensor.F32, tensor.Shape{rows, 1})
	for r := range rows {
		for c := range cols {
			y.f[r] += x.f[r*cols+c] * truth[c]
		}
	}
	y.settle()
	xt, yt, w := put(sess, x), put(sess, y), tensor.Zeros(sess, tensor.F32, cols, 1)
	if err := sess.Sync(); err != nil {
		t.Fatal(err)
	}
	hits, live := s.hits(sess.Engine()), sess.Stats().Live
	const steps = 400
	for range steps {
		sess.Scope(func(*tensor.Scope) {
			g := xt.T().Matmul(xt.Matmul(w).Sub(yt)).MulS(2. / rows)
			if err := w.SubAssign(g.MulS(0.5)); err != nil {
				t.Fatal(err)
			}
		})
		if err := sess.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "the solution", w, 1e-4, truth...)
	if n := sess.Stats().Live; n != live {
		t.Errorf("%d values are alive after the loop, %d before", n, live)
	}
	if n := s.hits(sess.Engine()) - hits; s.o.PlanHits != nil && n < steps-2 {
		t.Errorf("%d of %d equal steps were run by a plan that was there", n, steps)
	}
}

// xor trains a network with one hidden layer, its gradients written out, for 2,000 steps.
func (s behaviours) xor(t *testing.T) {
	sess := tensor.NewSession(s.start(t), &tensor.SessionOptions{Seed: 3})
	defer sess.Close()
	x := put(sess, floats(tensor.Shape{4, 2}, 0, 0, 0, 1, 1, 0, 1, 1))
	y := put(sess, floats(tensor.Shape{4, 1}, 0, 1, 1, 0))
	w1, b1 := tensor.RandN(sess, tensor.F32, 2, 8), tensor.Zeros(sess, tensor.F32, 8)
	w2, b2 := tensor.RandN(sess, tensor.F32, 8, 1), tensor.Zeros(sess, tensor.F32, 1)
	forward := func() (h, p *tensor.Tensor) {
		h = x.Matmul(w1).Add(b1).Tanh()
		return h, h.Matmul(w2).Add(b2).Sigmoid()
	}
	loss := func() float64 {
		_, p := forward()
		v, err := p.Sub(y).Square().Mean().Item()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := loss()
	for range 2000 {
		sess.Scope(func(*tensor.Scope) {
			h, p := forward()
			dz := p.Sub(y).MulS(0.25) // of the cross-entropy
			da := sess.Apply(tensor.OpTanhGrad, nil, tensor.T(h), tensor.T(dz.Matmul(w2.T())))
			for _, u := range []struct{ p, g *tensor.Tensor }{
				{w2, h.T().Matmul(dz)}, {b2, dz.Sum(0)}, {w1, x.T().Matmul(da)}, {b1, da.Sum(0)},
			} {
				if err := u.p.SubAssign(u.g.MulS(0.5)); err != nil {
					t.Fatal(err)
				}
			}
		})
		if err := sess.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	_, p := forward()
	want(t, "what the network says", p.GtS(0.5), 0, 0, 1, 1, 0)
	if last := loss(); !(last < 0.01 && last < first/10) {
		t.Errorf("the loss went from %v to %v", first, last)
	}
}
