package cpu_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// tap keeps the last program that passes through.
type tap struct {
	tensor.Engine
	encoded []byte
	scalars []float64
	inputs  []uint64
	program *tensor.Program
}

func (t *tap) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	if b.Program != nil {
		t.encoded, t.scalars, t.inputs, t.program = slices.Clone(b.Encoded), slices.Clone(b.Scalars), slices.Clone(b.Inputs), b.Program.Clone()
	}
	return t.Engine.Submit(ctx, b)
}

// TestRunsAllocateNothing wants a program that ran before to run without garbage,
// whatever its operations.
func TestRunsAllocateNothing(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tp := &tap{Engine: device.NewEngine(d)}
	s := tensor.NewSession(tp, nil)
	defer s.Close()
	x := tensor.From(s, make([]float32, 2*3*8*8), 2, 3, 8, 8)
	idx := tensor.From(s, []int32{1, 0, 1}, 3)
	w := tensor.From(s, make([]float32, 4*3*3*3), 4, 3, 3, 3)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	T, S := tensor.T, tensor.S
	for name, f := range map[string]func() []*tensor.Tensor{
		"elementwise": func() []*tensor.Tensor {
			y := x.T()
			return []*tensor.Tensor{x.Add(y), x.Add(y.MulS(2)).Exp(), x.Div(x.SumKeep(-1)), tensor.Where(x.Gt(y), x, y), x.Cast(tensor.I64).Mul(y.Cast(tensor.I64)), x.Clamp(0, 1), x.Flip(3), y.Reshape(2, 3, 64)}
		},
		"reductions": func() []*tensor.Tensor {
			var out []*tensor.Tensor
			for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
				y := x.Cast(d)
				for _, dims := range [][]int{nil, {0}, {3}, {1, 3}, {0, 1, 2}} {
					out = append(out, y.Sum(dims...), y.Mean(dims...), y.Max(dims...), y.Min(dims...), y.Prod(dims...))
				}
				out = append(out, y.Argmax(0), y.Argmin(-1), y.ArgmaxAll(), y.Cumsum(1))
			}
			return append(out, x.Gt(x).Any(0), x.Gt(x).All())
		},
		"rows": func() []*tensor.Tensor {
			flat := x.Reshape(48, 8)
			return []*tensor.Tensor{x.Softmax(-1), x.Softmax(1), x.LogSoftmax(-1), x.CausalSoftmax(0.5), x.CausalSoftmax(-0.5), x.RMSNorm(nil, 1e-6), x.LayerNorm(nil, nil, 1e-5, 2), x.Permute(0, 2, 1, 3).RMSNorm(nil, 1e-6),
				s.Apply(tensor.OpRMSNormGradX, []int64{1}, T(x), T(x), S(1e-6)), s.Apply(tensor.OpRMSNormGradW, []int64{1}, T(x), T(x), S(1e-6)),
				s.Apply(tensor.OpSoftmaxGrad, []int64{3}, T(x), T(x)), s.Apply(tensor.OpProdGrad, []int64{3}, T(x), T(x.SumKeep(3))),
				x.Rope(flat.Slice(tensor.To(0, 8), tensor.To(0, 4)), flat.Slice(tensor.To(0, 8), tensor.To(0, 4))),
				flat.Slice(tensor.To(0, 3)).CrossEntropy(idx, -1)}
		},
		"movement": func() []*tensor.Tensor {
			return []*tensor.Tensor{tensor.Concat(1, x, x.Flip(1)), x.Pad(0, [2]int{1, 1}, [2]int{0, 0}, [2]int{2, 2}, [2]int{1, 1}), x.Tril(0), x.Triu(1), x.IndexSelect(0, idx), x.IndexAdd(0, idx, x.IndexSelect(0, idx)),
				idx.OneHot(tensor.F32, 4), x.Gather(3, idx.Reshape(1, 1, 1, 3)), x.ScatterAdd(3, idx.Reshape(1, 1, 1, 3), x.Slice(tensor.To(0, 1), tensor.To(0, 1), tensor.To(0, 1), tensor.To(0, 3)))}
		},
		"products": func() []*tensor.Tensor {
			out := []*tensor.Tensor{x.Matmul(x.T()), x.Conv2D(w, nil, tensor.ConvOptions{Pad: [2]int{1, 1}}), x.MaxPool2D(2, 2, 0), x.AvgPool2D(2, 2, 0)}
			for _, d := range []tensor.DType{tensor.F64, tensor.I32, tensor.I64, tensor.U8} {
				out = append(out, x.Cast(d).Matmul(x.Cast(d)))
			}
			return out
		},
		"leaves": func() []*tensor.Tensor {
			return []*tensor.Tensor{tensor.Rand(s, tensor.F32, 9), tensor.RandN(s, tensor.F64, 9), x.Dropout(0.5), tensor.Arange(s, tensor.I32, 0, 1, 9), tensor.Ones(s, tensor.F64, 3)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var kept []*tensor.Tensor
			s.Scope(func(sc *tensor.Scope) {
				for _, y := range f() {
					kept = append(kept, sc.Keep(y))
				}
			})
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			// freed here, because the collector's goroutine would be counted
			for _, y := range kept {
				y.Free()
			}
			c, err := d.Compile(tensor.HashOf(tp.encoded), tp.encoded)
			if err != nil {
				t.Fatal(err)
			}
			space := d.Open()
			defer space.Close()
			for i, id := range tp.inputs {
				e := tp.program.Externals[i]
				b, err := d.Arena().Alloc(tp.program.Shapes[e.Shape].Elems() * e.DType.Size())
				if err != nil {
					t.Fatal(err)
				}
				clear(b.Bytes())
				if err := space.Import(id, e.DType, tp.program.Shapes[e.Shape], b, false); err != nil {
					t.Fatal(err)
				}
			}
			const base = 1 << 20
			if n := testing.AllocsPerRun(20, func() {
				if err := space.Run(c, base, tp.inputs, tp.scalars, nil); err != nil {
					t.Fatal(err)
				}
				for i := range tp.program.Instrs {
					space.Free(base + uint64(i))
				}
			}); n > 0 {
				t.Errorf("%v allocations a run", n)
			}
		})
	}
}

// TestLargeValuesBeginApart wants large values to begin at different lines of their
// pages, whatever their sizes, so that a pass over several of them doesn't have all in
// one set of the first-level cache.
func TestLargeValuesBeginApart(t *testing.T) {
	d, err := cpu.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e := device.NewEngine(d)
	defer e.Close()
	starts := map[uint64]int{}
	const values = 8 // of AdamW: three values and a gradient, and the results
	for i := range values {
		b, err := e.Alloc(64 << 10)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		at := b.(*shm.Block).Handle().Off % 4096
		if at%64 != 0 {
			t.Errorf("value %d begins %d bytes into its page, which is no line's start", i, at)
		}
		if was, ok := starts[at]; ok {
			t.Errorf("values %d and %d both begin %d bytes into their page", was, i, at)
		}
		starts[at] = i
	}
}
