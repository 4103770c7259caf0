package compile

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestOrderOfResults wants elementwise steps to go over their operands as these lie, and
// the results to lie so, where all readers can take them.
func TestOrderOfResults(t *testing.T) {
	turned := []int{1, 3} // of a result of 3 by 2
	for name, c := range map[string]struct {
		f      recorder
		copies int
		want   [][]int // of each kept result
	}{
		"one operand": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Exp())
		}, 0, [][]int{turned}},
		"a chain, a scalar and a row": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().MulS(2).Add(y.T()).Add(y.Reshape(6).Narrow(0, 0, 2)).Neg())
		}, 0, [][]int{turned}},
		"two orders": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Add(y.Reshape(3, 2)))
		}, 0, [][]int{nil}},
		"back again": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Exp().T().Add(y))
		}, 0, [][]int{nil}},
		"a product": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.T().Exp().Matmul(y))
		}, 0, [][]int{nil}},
		"a reader of rows": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			e := sc.Keep(x.T().Exp())
			sc.Keep(e.Softmax(0))
		}, 0, [][]int{nil, nil}},
		"a dim of one": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(x.Reshape(2, 1, 3).Permute(2, 1, 0).Exp())
		}, 0, [][]int{{1, 6, 3}}},
		"a copy": {func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
			sc.Keep(s.Apply(tensor.OpCast, []int64{int64(tensor.F32)}, tensor.T(x.T())))
		}, 0, [][]int{nil}},
	} {
		p := planWith(t, &Options{NoFuse: true, Orders: true}, c.f)
		if p.Stats.Copies != c.copies {
			t.Errorf("%s: %d copies\n%v", name, p.Stats.Copies, p)
		}
		for i, o := range p.Outputs {
			if !slices.Equal(o.Strides, c.want[i]) {
				t.Errorf("%s: result %d has strides %v, want %v\n%v", name, i, o.Strides, c.want[i], p)
			}
		}
		for _, o := range planWith(t, &Options{NoFuse: true}, c.f).Outputs {
			if o.Strides != nil {
				t.Errorf("%s: strides %v for an engine that keeps none", name, o.Strides)
			}
		}
	}
}

func TestOrderPrints(t *testing.T) {
	p := planWith(t, &Options{NoFuse: true, Orders: true}, func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) {
		sc.Keep(x.T().Exp())
	})
	const want = "out0:f32[2 3] = exp in0:f32[2 3]\nout0 is %1, by strides [1 3]\n"
	if got := p.String(); got != want {
		t.Errorf("printed\n%s\nexpected\n%s", got, want)
	}
}

// TestOrderOfInputs compiles a program for an input that lies column by column.
func TestOrderOfInputs(t *testing.T) {
	f := func(s *tensor.Session, sc *tensor.Scope, x, y *tensor.Tensor) { sc.Keep(x.Neg().T()) }
	p := planWith(t, &Options{NoFuse: true, Orders: true, Strides: [][]int{{1, 2}}}, f)
	if len(p.Steps) != 2 || !p.Steps[0].In[0].Dense || !p.Steps[1].In[0].Dense {
		t.Errorf("steps read\n%v", p)
	}
	if o := p.Outputs[0]; o.Strides != nil {
		t.Errorf("a kept view has strides %v", o.Strides)
	}
}

func TestMemoryOrder(t *testing.T) {
	for _, c := range []struct {
		shape   tensor.Shape
		strides []int
		want    []int
	}{
		{tensor.Shape{2, 3}, []int{3, 1}, []int{0, 1}},
		{tensor.Shape{2, 3}, []int{1, 2}, []int{1, 0}},
		{tensor.Shape{2, 3}, []int{1, 8}, []int{1, 0}},
		{tensor.Shape{2, 3}, []int{2, 2}, nil},
		{tensor.Shape{2, 3}, []int{-3, 1}, nil},
		{tensor.Shape{5, 1, 3}, []int{1, 7, 5}, []int{1, 2, 0}},
		{tensor.Shape{5, 1}, []int{1, 9}, []int{0, 1}},
		{tensor.Shape{4, 2, 3}, []int{1, 12, 4}, []int{1, 2, 0}},
		{tensor.Shape{}, nil, []int{}},
	} {
		got, ok := memoryOrder(Operand{Shape: c.shape, Strides: c.strides})
		if ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%v/%v: %v, %v, want %v", c.shape, c.strides, got, ok, c.want)
		}
	}
}
