package cpu_test

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/compile"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cpu/kernel"
)

// TestChainsOfTwo: any two operations of a tensor and a scalar or of two tensors, one after the other or side by side, are
// the same bits as a chain, whichever of them is the first.
func TestChainsOfTwo(t *testing.T) {
	ops := map[string]func(x, y *tensor.Tensor) *tensor.Tensor{
		"x+s": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.AddS(0.5) },
		"x-s": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.SubS(0.25) },
		"s-x": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.RSubS(2) },
		"x*s": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.MulS(3) },
		"x/s": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.DivS(7) },
		"s/x": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.RDivS(5) },
		"x+y": func(x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y) },
		"y-x": func(x, y *tensor.Tensor) *tensor.Tensor { return y.Sub(x) },
		"x/y": func(x, y *tensor.Tensor) *tensor.Tensor { return x.Div(y) },
		"-x":  func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Neg() },
		"x*x": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Square() },
	}
	for _, level := range kernel.Levels() {
		fused, plain := newTraced(t, cpu.Options{Level: &level}, false), newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
		for first, f := range ops {
			for second, g := range ops {
				for _, beside := range []bool{false, true} {
					record := func(s *tensor.Session) []*tensor.Tensor {
						x, y := tensor.Arange(s, tensor.F32, 1, 1, 300), tensor.Arange(s, tensor.F32, 3, 0.5, 300)
						a := f(x, y)
						if beside {
							return []*tensor.Tensor{a, g(x, y)}
						}
						return []*tensor.Tensor{a, g(a, y)}
					}
					got := fused.results(t, record)
					for i, want := range plain.results(t, record) {
						if !bytes.Equal(got[i], want) {
							t.Errorf("%v: %s and %s, beside each other %v: result %d has other bits as a chain", level, first, second, beside, i)
						}
					}
				}
			}
		}
		if fused.steps[compile.Tiles] == 0 {
			t.Errorf("%v: nothing was fused", level)
		}
	}
}
