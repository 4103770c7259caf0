package cpu_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// TestChainsOfTwo wants any two operations of a tensor and a scalar or of two tensors,
// one after the other or side by side, to have the same bits as a chain, with either of
// them first: of float32 and of types that a chain widens and rounds.
func TestChainsOfTwo(t *testing.T) {
	ops := map[string]func(x, y *tensor.Tensor) *tensor.Tensor{
		"x+s":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.AddS(0.5) },
		"x-s":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.SubS(0.25) },
		"s-x":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.RSubS(2) },
		"x*s":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.MulS(3) },
		"x/s":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.DivS(7) },
		"s/x":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.RDivS(5) },
		"x+y":        func(x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y) },
		"y-x":        func(x, y *tensor.Tensor) *tensor.Tensor { return y.Sub(x) },
		"x/y":        func(x, y *tensor.Tensor) *tensor.Tensor { return x.Div(y) },
		"-x":         func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Neg() },
		"clamp":      func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Clamp(2, 90) },
		"open clamp": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Clamp(math.NaN(), 90) },
		"x*x":        func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Square() },
	}
	for _, level := range levels() {
		fused, plain := newTraced(t, cpu.Options{Level: &level}, false), newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
		for first, f := range ops {
			for second, g := range ops {
				for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
					for _, beside := range []bool{false, true} {
						record := func(s *tensor.Session) []*tensor.Tensor {
							x, y := tensor.Arange(s, d, 1, 1, 300), tensor.Arange(s, d, 3, 0.5, 300)
							a := f(x, y)
							if beside {
								return []*tensor.Tensor{a, g(x, y)}
							}
							return []*tensor.Tensor{g(a, y), a}
						}
						got := fused.results(t, record)
						for i, want := range plain.results(t, record) {
							if !bytes.Equal(got[i], want) {
								t.Errorf("%v, %v: %s and %s, beside each other %v: result %d has other bits as a chain", level, d, first, second, beside, i)
							}
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

// halfOf returns as many numbers as x has, in memory in 16 bits.
func halfOf(x *tensor.Tensor) *tensor.Tensor {
	n := x.Shape().Elems()
	return tensor.Concat(0, tensor.Arange(x.Session(), tensor.BF16, -3, 0.25, n-1), tensor.Ones(x.Session(), tensor.BF16, 1))
}

// TestStretches wants chains over contiguous operands to go by stretches, all others tile
// by tile, and both to have the bits of one operation after the other, for any number of
// elements left at the end.
func TestStretches(t *testing.T) {
	chains := map[string]struct {
		far bool
		f   func(x, y *tensor.Tensor) []*tensor.Tensor
	}{
		"contiguous": {true, func(x, y *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{x.Mul(y).Sub(x).AddS(0.5).ReLU()} }},
		"halves": {true, func(x, y *tensor.Tensor) []*tensor.Tensor {
			h := halfOf(x)
			return []*tensor.Tensor{h.Mul(h).AddS(3).Sub(h).Floor()}
		}},
		"halves, two results": {false, func(x, y *tensor.Tensor) []*tensor.Tensor {
			h := halfOf(x)
			z := h.Mul(h)
			return []*tensor.Tensor{z, z.Sub(h)} // h is read after a result is written
		}},
		"halves through scratch": {false, func(x, y *tensor.Tensor) []*tensor.Tensor {
			h := halfOf(x)
			z := h.SubS(0.3)
			return []*tensor.Tensor{z.Mul(h).AddS(1).Mul(z)}
		}},
		"two results": {true, func(x, y *tensor.Tensor) []*tensor.Tensor {
			z := x.Mul(y).SubS(3)
			return []*tensor.Tensor{z, z.Abs().Sqrt()}
		}},
		"through scratch": {false, func(x, y *tensor.Tensor) []*tensor.Tensor {
			z := x.Sub(y)
			return []*tensor.Tensor{z.Mul(x).Add(y).Mul(z)}
		}},
		"another kernel in between": {false, func(x, y *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x.Sub(y).AddS(1).Sin().Mul(x).Add(y)}
		}},
		"an operand of one number": {true, func(x, y *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{x.Sub(y.Narrow(0, 0, 1)).Mul(x)}
		}},
	}
	const length = cpu.Stretch
	for _, level := range levels() {
		for _, threads := range []int{1, 3} {
			fused, plain := newTraced(t, cpu.Options{Level: &level, Threads: threads}, true), newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
			far, tiles := 0, 0
			fused.onStep = func(s *compile.Step) {
				if fused.GoesFar(s) {
					far++
				} else if s.Fused == compile.Tiles {
					tiles++
				}
			}
			for name, c := range chains {
				far, tiles = 0, 0
				sizes := []int{2, 1023, 1024, 1025, length - 1, length, length + 1, 2*length + 1024 + 65}
				for _, n := range sizes {
					record := func(s *tensor.Session) []*tensor.Tensor {
						return c.f(tensor.Arange(s, tensor.F32, -7, 0.37, n), tensor.Arange(s, tensor.F32, 3, -0.5, n))
					}
					got := fused.results(t, record)
					for i, want := range plain.results(t, record) {
						if !bytes.Equal(got[i], want) {
							t.Errorf("%v, %d threads, %s: result %d of %d elements has other bits", level, threads, name, i, n)
						}
					}
				}
				if c.far && fused.Table().ChainBlock > 0 && (far != len(sizes) || tiles > 0) || !c.far && (far > 0 || tiles == 0) {
					t.Errorf("%v, %d threads, %s: %d steps went far and %d tile by tile, of %d programs", level, threads, name, far, tiles, len(sizes))
				}
			}
		}
	}
}

// TestRowNumbers wants operations of a matrix and of a column that has one number for a
// row of it, which chains read in place, to have the same bits as those of the matrix and
// of one that has the column's numbers in all places.
func TestRowNumbers(t *testing.T) {
	const rows = 5
	numbers := []float64{3, 0, math.Copysign(0, -1), 117, 0.7}
	ops := map[string]func(x, y *tensor.Tensor) *tensor.Tensor{
		"x+y":             func(x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y) },
		"x-y":             func(x, y *tensor.Tensor) *tensor.Tensor { return x.Sub(y) },
		"x*y":             func(x, y *tensor.Tensor) *tensor.Tensor { return x.Mul(y) },
		"x/y":             func(x, y *tensor.Tensor) *tensor.Tensor { return x.Div(y) },
		"max":             func(x, y *tensor.Tensor) *tensor.Tensor { return x.Maximum(y) },
		"min":             func(x, y *tensor.Tensor) *tensor.Tensor { return x.Minimum(y) },
		"(x-y)*y+1":       func(x, y *tensor.Tensor) *tensor.Tensor { return x.Sub(y).Mul(y).AddS(1) },
		"exp in between":  func(x, y *tensor.Tensor) *tensor.Tensor { return x.Add(y).Neg().Exp().Mul(y).Sub(x) },
		"sum of the rows": func(x, y *tensor.Tensor) *tensor.Tensor { return x.Mul(y).AddS(1).Sum(1) },
	}
	floats := map[string]bool{"x/y": true, "exp in between": true}
	for _, level := range levels() {
		for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.BF16, tensor.I32, tensor.I64, tensor.U8} {
			dev := newTraced(t, cpu.Options{Level: &level}, false)
			for _, n := range []int{2, 1024, 1025, 2048, 3333} {
				for name, f := range ops {
					if !d.IsFloat() && floats[name] {
						continue
					}
					record := func(full bool) func(s *tensor.Session) []*tensor.Tensor {
						return func(s *tensor.Session) []*tensor.Tensor {
							x := tensor.Arange(s, tensor.F32, -7, 0.37, rows*n).Reshape(rows, n).Cast(d)
							var parts []*tensor.Tensor
							for _, v := range numbers {
								if full {
									parts = append(parts, tensor.Full(s, d, v, 1, n))
								} else {
									parts = append(parts, tensor.Full(s, d, v, 1, 1))
								}
							}
							y := tensor.Concat(0, parts...)
							return []*tensor.Tensor{f(x, y), f(y, x)}
						}
					}
					got := dev.results(t, record(false))
					for i, want := range dev.results(t, record(true)) {
						if !bytes.Equal(got[i], want) {
							t.Errorf("%v, %v, %s of rows of %d: result %d has other bits", level, d, name, n, i)
						}
					}
				}
			}
		}
	}
}
