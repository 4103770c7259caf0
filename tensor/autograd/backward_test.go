package autograd_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestCutsHaveGradients: slices, splits and indices have gradients of their operand's
// shape.
func TestCutsHaveGradients(t *testing.T) { devicetest.Each(t, testCutsHaveGradients) }

func testCutsHaveGradients(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 1, 2, 3, 4)
	parts := x.Split(0, 1, 3)
	loss := x.Slice(tensor.By(0, 4, 2)).Sum().Add(parts[1].MulS(10).Sum()).Add(x.Slice(tensor.At(3)).MulS(100))
	want(t, "gradient", grad(t, loss, x)[0], 1, 10, 11, 110)
}

// TestProductGradientsHaveTheOperandsShapes: products of vectors, or of matrices with
// more dims, give gradients of the operands' shapes.
func TestProductGradientsHaveTheOperandsShapes(t *testing.T) {
	devicetest.Each(t, testProductGradientsHaveTheOperandsShapes)
}

func testProductGradientsHaveTheOperandsShapes(t *devicetest.T) {
	s := newSession(t)
	for _, c := range []struct{ a, b []int }{
		{[]int{3}, []int{3, 4}}, {[]int{2, 3}, []int{3}}, {[]int{4, 3}, []int{5, 3, 2}}, {[]int{5, 4, 3}, []int{3, 2}}, {[]int{3}, []int{5, 3, 2}},
	} {
		a, b := tensor.Ones(s, tensor.F64, c.a...).RequireGrad(), tensor.Ones(s, tensor.F64, c.b...).RequireGrad()
		g := grad(t, a.Matmul(b).Sum(), a, b)
		if !g[0].Shape().Equal(c.a) || !g[1].Shape().Equal(c.b) {
			t.Errorf("%v x %v: gradients %v and %v", c.a, c.b, g[0], g[1])
		}
	}
}

func TestGradientsAccumulate(t *testing.T) { devicetest.Each(t, testGradientsAccumulate) }

func testGradientsAccumulate(t *devicetest.T) {
	s := newSession(t)
	w := leaf(s, 2)
	for _, batch := range [][]float64{{1, 2}, {3}, {4, 5, 6}} {
		s.Scope(func(*tensor.Scope) { backward(t, w.Mul(tensor.From(s, batch)).Sum()) })
	}
	want(t, "gradient after three batches", w.Grad(), 21)
	w.SetGrad(nil)
	if w.Grad() != nil {
		t.Error("a gradient is left after SetGrad(nil)")
	}
	backward(t, w.Square().Sum())
	want(t, "gradient after it was cleared", w.Grad(), 4)
}

// TestSecondLoss: a loss can be differentiated twice, and a second loss can share a part
// of the graph of the first.
func TestSecondLoss(t *testing.T) { devicetest.Each(t, testSecondLoss) }

func testSecondLoss(t *devicetest.T) {
	s := newSession(t)
	x := leaf(s, 3)
	shared := x.Square()
	first, second := shared.MulS(2).Sum(), shared.AddS(1).Square().Sum()
	backward(t, first)
	want(t, "after the first loss", x.Grad(), 12)
	backward(t, second)
	want(t, "after the second loss", x.Grad(), 12+2*10*6)
	backward(t, first)
	want(t, "after the first loss again", x.Grad(), 12+120+12)
}

// TestForwardAloneLeavesNothing: a forward pass without a backward pass keeps no values
// alive.
func TestForwardAloneLeavesNothing(t *testing.T) { devicetest.Each(t, testForwardAloneLeavesNothing) }

func testForwardAloneLeavesNothing(t *devicetest.T) {
	s := newSession(t)
	w := leaf(s, 1, 2)
	var before int
	for i := range 100 {
		s.Scope(func(*tensor.Scope) { w.Exp().Mul(w).Sum() })
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if live := s.Stats().Live; i == 0 {
			before = live
		} else if live != before {
			t.Fatalf("%d values live after pass %d, %d after the first", live, i, before)
		}
	}
}

// TestUpdateIsNotRecorded: an update under NoGrad is no part of any graph, so the next
// gradient is that of the new value alone.
func TestUpdateIsNotRecorded(t *testing.T) { devicetest.Each(t, testUpdateIsNotRecorded) }

func testUpdateIsNotRecorded(t *devicetest.T) {
	s := newSession(t)
	w := leaf(s, 8)
	expect := 8.0
	for i := range 4 {
		s.Scope(func(*tensor.Scope) {
			backward(t, w.Square().Sum())
			want(t, "gradient", w.Grad(), 2*expect)
			s.NoGrad(func() {
				if err := w.SubAssign(w.Grad().MulS(0.25)); err != nil {
					t.Fatal(err)
				}
			})
			w.SetGrad(nil)
		})
		expect /= 2
		want(t, "value", w, expect)
		if n := s.Stats().Live; i > 0 && n != 1 {
			t.Errorf("%d values live after update %d, expected the leaf alone", n, i)
		}
	}
	if w.Node() != nil || !w.RequiresGrad() {
		t.Error("the leaf is a leaf no more")
	}
}

func TestBackwardReachesEveryLeaf(t *testing.T) { devicetest.Each(t, testBackwardReachesEveryLeaf) }

func testBackwardReachesEveryLeaf(t *devicetest.T) {
	s := newSession(t)
	a, b, c := leaf(s, 1), leaf(s, 2), leaf(s, 3)
	frozen := tensor.From(s, []float64{4})
	backward(t, a.Mul(b).Add(frozen.Mul(a)).Sum())
	want(t, "a", a.Grad(), 6)
	want(t, "b", b.Grad(), 1)
	if c.Grad() != nil || frozen.Grad() != nil {
		t.Error("a gradient where none belongs")
	}
}
