package cpu_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// traced is a device that counts the steps it runs.
type traced struct {
	*cpu.Device
	steps map[compile.Fused]int
	names map[string]bool
	cut   int // folds whose sums are in another order

	onStep func(*compile.Step)
}

// inPieces reports whether s folds into one result more than a tile holds, or elements
// that lie in pieces.
func inPieces(s *compile.Step) bool {
	return slices.ContainsFunc(s.In, func(o compile.Operand) bool {
		return o.Scalar < 0 && (!o.Dense || o.Shape.Elems() > 1024*s.Out.Shape.Elems())
	})
}

func newTraced(t *testing.T, o cpu.Options, eager bool) *traced {
	t.Helper()
	d := &traced{steps: map[compile.Fused]int{}, names: map[string]bool{}}
	open := cpu.New
	if eager {
		open = cpu.NewEager
	}
	o.Arena = small
	var err error
	if d.Device, err = open(&o); err != nil {
		t.Fatal(err)
	}
	d.OnStep(func(p *compile.Plan, step int) {
		if s := &p.Steps[step]; s.Fused == compile.TilesFold && s.Op != tensor.OpAmax && s.Op != tensor.OpAmin && inPieces(s) {
			d.cut++
		}
		if s := &p.Steps[step]; d.Table().Brain != nil && s.Op == tensor.OpMatmul && s.In[0].DType == tensor.BF16 && s.In[1].DType == tensor.BF16 {
			d.cut++ // sums of products that are rounded at other places
		}
		if s := &p.Steps[step]; s.Fused == compile.HalfRows && (s.Op == tensor.OpSum || s.Op == tensor.OpMean) && !s.In[0].Dense {
			d.cut++ // maybe sums in another order
		}
		d.steps[p.Steps[step].Fused]++
		d.names[p.Steps[step].Name()] = true
		if d.onStep != nil {
			d.onStep(&p.Steps[step])
		}
	})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// results runs the operations of f in one program and returns the bytes of the results
// that it keeps.
func (d *traced) results(t *testing.T, f func(s *tensor.Session) []*tensor.Tensor) [][]byte {
	t.Helper()
	s := tensor.NewSession(device.NewEngine(d.Device), nil)
	defer s.Close()
	var keep []*tensor.Tensor
	s.Scope(func(sc *tensor.Scope) {
		for _, x := range f(s) {
			keep = append(keep, sc.Keep(x))
		}
	})
	out := make([][]byte, len(keep))
	for i, x := range keep {
		if err := x.ViewBytes(func(b []byte) error {
			out[i] = bytes.Clone(b)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestFusionKeepsBits wants random programs to give the same bits with one thread and
// with two or three that share every step, however small. With and without fusion the
// bits must be the same too, unless a step is of a kind that may change them.
func TestFusionKeepsBits(t *testing.T) {
	n, first := programs(25, 100), 999+*randomSeed
	for _, level := range levels() {
		fused, plain := newTraced(t, cpu.Options{Level: &level}, false), newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false)
		shared := []*traced{newTraced(t, cpu.Options{Level: &level, Threads: 2}, true), newTraced(t, cpu.Options{Level: &level, Threads: 3}, true)}
		compared := uint64(0)
		for seed := first; seed < first+n; seed++ {
			f := func(s *tensor.Session) []*tensor.Tensor {
				all := enginetest.Generate(s, seed, 50)
				return all[:(len(all)+1)/2]
			}
			before := other(fused.steps) + fused.cut
			got := fused.results(t, f)
			for k, d := range shared {
				for i, x := range d.results(t, f) {
					if !bytes.Equal(got[i], x) {
						t.Errorf("%v, seed %d: result %d has other bits with %d threads", level, seed, i, k+2)
					}
				}
			}
			if other(fused.steps)+fused.cut != before {
				continue // attention, norms, pads, sums in pieces or products of bfloat16
			}
			compared++
			for i, want := range plain.results(t, f) {
				if !bytes.Equal(got[i], want) {
					t.Errorf("%v, seed %d: result %d has other bits when fused", level, seed, i)
				}
			}
		}
		if fused.steps[compile.Tiles] == 0 || fused.steps[compile.TilesFold] == 0 || plain.steps[compile.Tiles] != 0 {
			t.Errorf("%v: %d and %d steps of tiles", level, fused.steps[compile.Tiles], plain.steps[compile.Tiles])
		}
		t.Logf("%v: %d programs from seed %d with 1, 2 and 3 threads, %d of them without fusion too", level, n, first, compared)
		if compared < n/2 {
			t.Errorf("%v: only %d of %d programs were compared without fusion", level, compared, n)
		}
	}
}

// other counts steps whose bits may differ from those of their single operations.
func other(steps map[compile.Fused]int) int {
	n := 0
	for k, c := range steps {
		if k != compile.Single && k != compile.Tiles && k != compile.AdamW && k != compile.TilesFold && k != compile.Epilogue && k != compile.HalfRows {
			n += c
		}
	}
	return n
}

// tileShapes returns operands in every position that a tile can read them in.
func tileShapes(s *tensor.Session) []*tensor.Tensor {
	var out []*tensor.Tensor
	for i, sh := range [][]int{{1}, {7}, {1500}, {3, 5}, {40, 70}, {700, 3}, {5, 1300}, {2, 3, 4, 5}, {3, 1, 2100}, {2, 600, 2}} {
		x := tensor.RandN(s, tensor.F32, sh...)
		last := len(sh) - 1
		row := tensor.RandN(s, tensor.F32, sh[last])
		col := tensor.RandN(s, tensor.F32, append(append([]int{}, sh[:last]...), 1)...)
		// strided
		turned := tensor.RandN(s, tensor.F32, append(append([]int{}, sh...), 2)...).Narrow(-1, i%2, 1).Reshape(sh...)
		back := tensor.RandN(s, tensor.F32, sh...).Flip(last)
		y := x.Exp().Add(row).Mul(col).MulS(0.5).Sub(turned)
		z := y.Maximum(back).ReLU()
		w := x.Mul(x).AddS(1).Sqrt()
		q := w.Neg().Add(w).SubS(0.5).RSubS(2).Div(w).Abs().Minimum(row).Square().Mul(w)
		T, S := tensor.T, tensor.S
		q = s.Apply(tensor.OpMax, nil, S(0.25), T(s.Apply(tensor.OpDiv, nil, S(3), T(q.AddS(1)))))
		out = append(out, q, w.Sub(q).DivS(3).MulS(2).Sub(w).ReLU())
		wide := z.Cast(tensor.F64).Mul(x.Cast(tensor.F64))
		out = append(out, y, tensor.Where(z.Gt(x), z, y).RSubS(1), wide, wide.Cast(tensor.F32).Clamp(-1, 1), z.Gt(x).And(x.LtS(0.5)), x.Slice(tensor.At(0)).Neg())
	}
	return out
}

func TestTilesOfAllShapes(t *testing.T) {
	for _, level := range levels() {
		want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, tileShapes)
		for _, threads := range []int{1, 2, 3} {
			d := newTraced(t, cpu.Options{Level: &level, Threads: threads}, threads > 1)
			for i, got := range d.results(t, tileShapes) {
				if !bytes.Equal(got, want[i]) {
					t.Errorf("%v, %d threads: result %d has other bits in tiles", level, threads, i)
				}
			}
			if d.steps[compile.Tiles] < 10 {
				t.Errorf("only %d steps of tiles", d.steps[compile.Tiles])
			}
		}
	}
}

// layer has the operations of a transformer's step: norms, attention, a projection cut in
// three, a gated layer, a loss, AdamW.
func layer(b, h, kv, n, d int, scale float64, causal bool) func(s *tensor.Session) []*tensor.Tensor {
	return func(s *tensor.Session) []*tensor.Tensor {
		s.Seed(5)
		wide := (h + 2*kv) * d
		param := func(sh ...int) *tensor.Tensor {
			p := tensor.RandN(s, tensor.F32, sh...).MulS(0.3)
			p.RequireGrad()
			return p
		}
		x, w, bias, g := param(b, n, 24), param(24), param(24), param(d)
		proj, pb, out, up := param(24, wide), param(wide), param(h*d, 24), param(24, 48)
		ps := []*tensor.Tensor{x, w, bias, g, proj, pb, out, up}

		qkv := x.LayerNorm(w, bias, 1e-5, 1).Matmul(proj).Add(pb)
		part := func(from, heads int) *tensor.Tensor {
			return qkv.Narrow(2, from*d, heads*d).Reshape(b, n, heads, d).RMSNorm(g, 1e-6).Transpose(1, 2)
		}
		y := tensor.Attention(part(0, h), part(h, kv), part(h+kv, kv), scale, causal)
		y = x.Add(y.Transpose(1, 2).Reshape(b, n, h*d).Matmul(out))
		u := y.Matmul(up)
		y = y.Add(u.Narrow(2, 0, 24).SiLU().Mul(u.Narrow(2, 24, 24)))
		idx := make([]int32, b*n)
		for i := range idx {
			idx[i] = int32(i*7%24) - int32(100*(i%5/4))
			if idx[i] < 0 {
				idx[i] = -100
			}
		}
		loss := y.CrossEntropy(tensor.From(s, idx, b, n), -100)
		grads, err := autograd.Grad(loss, ps...)
		if err != nil {
			panic(err)
		}
		all := append([]*tensor.Tensor{loss, y}, grads...)
		T, S := tensor.T, tensor.S
		for i, p := range ps {
			z := tensor.Zeros(s, tensor.F32, p.Shape()...)
			m, v := s.Apply(tensor.OpAdamM, nil, T(z), T(grads[i]), S(0.9)), s.Apply(tensor.OpAdamV, nil, T(z), T(grads[i]), S(0.99))
			all = append(all, m, v, s.Apply(tensor.OpAdamW, nil, T(p), T(m), T(v), S(0.1), S(0.1), S(1e-3), S(0.1), S(0.01)))
		}
		return all
	}
}

// TestFusedTrainingStep wants a transformer's training step to give the results of its
// single operations, and the same bits for any number of threads.
func TestFusedTrainingStep(t *testing.T) {
	type sizes struct {
		b, h, kv, n, d int
		scale          float64
		causal         bool
	}
	cases := []sizes{{2, 4, 4, 7, 6, 0.4, true}, {2, 4, 2, 50, 8, 0.35, true}, {1, 3, 1, 97, 16, 0.25, true}, {2, 2, 2, 33, 5, -0.3, true}, {1, 1, 1, 2, 4, 0, true},
		{2, 4, 4, 7, 6, 0.4, false}, {1, 4, 2, 67, 8, 0.35, false}, {2, 2, 2, 33, 5, -0.3, false}}
	t.Logf("seed %d", *randomSeed)
	r := rand.New(rand.NewPCG(*randomSeed, 2))
	for range programs(20, 80) / 10 {
		kv, group := 1+r.IntN(3), 1+r.IntN(3)
		cases = append(cases, sizes{1 + r.IntN(3), kv * group, kv, 2 + r.IntN(80), 4 + r.IntN(14), 0.1 + r.Float64()/2, r.IntN(2) == 0})
	}
	for _, c := range cases {
		for _, level := range levels() {
			// the subtest's end closes its devices
			t.Run(fmt.Sprintf("%v %+v", level, c), func(t *testing.T) {
				trainingStep(t, level, layer(c.b, c.h, c.kv, c.n, c.d, c.scale, c.causal))
			})
		}
	}
}

func trainingStep(t *testing.T, level kernel.Level, f func(s *tensor.Session) []*tensor.Tensor) {
	want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, f)
	one := newTraced(t, cpu.Options{Level: &level}, false)
	got := one.results(t, f)
	for i := range want {
		if e := relative(got[i], want[i]); !(e < 2e-4) {
			t.Errorf("result %d is off by %.2g of the largest", i, e)
		}
	}
	for _, kind := range []compile.Fused{compile.Attention, compile.AttentionGrad, compile.NormGrad, compile.LossGrad, compile.AdamW, compile.JoinPads, compile.Tiles, compile.Epilogue} {
		if one.steps[kind] == 0 {
			t.Errorf("no step is %v", kind)
		}
	}
	for _, threads := range []int{2, 3} {
		for i, x := range newTraced(t, cpu.Options{Level: &level, Threads: threads}, true).results(t, f) {
			if !bytes.Equal(x, got[i]) {
				t.Errorf("result %d has other bits with %d threads", i, threads)
			}
		}
	}
}

// relative returns the largest difference of two float32 tensors over the largest
// element.
func relative(a, b []byte) float64 {
	diff, most := 0.0, 1e-30
	for i := 0; i+4 <= len(a); i += 4 {
		x, y := f32(a[i:]), f32(b[i:])
		diff, most = max(diff, math.Abs(x-y)), max(most, math.Abs(y))
	}
	return diff / most
}

func f32(b []byte) float64 {
	return float64(math.Float32frombits(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24))
}

// TestAdamWOfOneParameterTwice wants updates of one parameter after another, with nothing
// in between that reads it, to give the results of single operations.
func TestAdamWOfOneParameterTwice(t *testing.T) {
	f := func(s *tensor.Session) []*tensor.Tensor {
		const n = 20_000
		T, S := tensor.T, tensor.S
		p, m, v := tensor.RandN(s, tensor.F32, n), tensor.Zeros(s, tensor.F32, n), tensor.Zeros(s, tensor.F32, n)
		for range 3 {
			g := tensor.RandN(s, tensor.F32, n)
			m, v = s.Apply(tensor.OpAdamM, nil, T(m), T(g), S(0.9)), s.Apply(tensor.OpAdamV, nil, T(v), T(g), S(0.99))
			p = s.Apply(tensor.OpAdamW, nil, T(p), T(m), T(v), S(0.1), S(0.1), S(1e-3), S(0.1), S(0.01))
		}
		return []*tensor.Tensor{p, m, v}
	}
	for _, level := range levels() {
		want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, f)
		for _, threads := range []int{1, 2, 3} {
			d := newTraced(t, cpu.Options{Level: &level, Threads: threads}, threads > 1)
			for i, got := range d.results(t, f) {
				if e := relative(got, want[i]); !(e < 1e-5) {
					t.Errorf("%v, %d threads: result %d is off by %g", level, threads, i, e)
				}
			}
			if n := d.steps[compile.AdamW]; n != 3 {
				t.Errorf("%v, %d threads: %d steps of updates, expected 3", level, threads, n)
			}
		}
	}
}

// TestSGDInTiles wants updates by SGD in tiles to have the bits of single operations, in
// every type, where the parameter is read again and where the momentum may lie in its
// place.
func TestSGDInTiles(t *testing.T) {
	f := func(s *tensor.Session) (out []*tensor.Tensor) {
		T, S := tensor.T, tensor.S
		for _, d := range []tensor.DType{tensor.F32, tensor.F64, tensor.F16, tensor.BF16} {
			for _, n := range []int{5, 20_000} {
				random := func() *tensor.Tensor { return tensor.RandN(s, tensor.F32, n).Cast(d) }
				p, b := random(), random()
				for _, decay := range []float64{0, 0.01} {
					b = s.Apply(tensor.OpSGDM, nil, T(b), T(random().MulS(0.5)), T(p), S(0.9), S(0.1), S(decay))
					p = s.Apply(tensor.OpSGD, nil, T(p), T(b), S(0.1), S(decay))
				}
				last := s.Apply(tensor.OpSGDM, nil, T(random()), T(random()), T(random().Exp()), S(0.9), S(0.1), S(0.01))
				out = append(out, b, p, last)
			}
		}
		return out
	}
	for _, level := range levels() {
		want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, f)
		for _, threads := range []int{1, 2, 3} {
			d := newTraced(t, cpu.Options{Level: &level, Threads: threads}, threads > 1)
			alone := 0
			d.onStep = func(s *compile.Step) {
				if s.Fused == compile.Single && (s.Op == tensor.OpSGD || s.Op == tensor.OpSGDM) {
					alone++
				}
			}
			for i, got := range d.results(t, f) {
				if !bytes.Equal(got, want[i]) {
					t.Errorf("%v, %d threads: result %d has other bits in tiles", level, threads, i)
				}
			}
			if alone > 0 {
				t.Errorf("%v, %d threads: %d updates are no part of tiles", level, threads, alone)
			}
		}
	}
}

// TestExtremesOfZeros wants extremes of zeros of both signs to be the same whether a
// tensor full of one number became that number or not.
func TestExtremesOfZeros(t *testing.T) {
	minus := math.Copysign(0, -1)
	f := func(s *tensor.Session) []*tensor.Tensor {
		var out []*tensor.Tensor
		x := tensor.From(s, []float32{float32(minus), 0, 1, -1}, 4)
		for _, v := range []float64{0, minus} {
			z := tensor.Full(s, tensor.F32, v, 4)
			out = append(out, x.Maximum(z), z.Maximum(x), x.Minimum(z), z.Minimum(x), z.Maximum(x.Neg()).Abs().Sub(x), x.Neg().Minimum(z).Sub(x))
		}
		return out
	}
	for _, level := range levels() {
		want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, f)
		for i, got := range newTraced(t, cpu.Options{Level: &level}, false).results(t, f) {
			if !bytes.Equal(got, want[i]) {
				t.Errorf("%v: result %d is % x, not fused % x", level, i, got, want[i])
			}
		}
	}
}

// TestJoinedPadsOfAnyValue wants pads of other numbers than zero to be joined too.
func TestJoinedPadsOfAnyValue(t *testing.T) {
	f := func(s *tensor.Session) []*tensor.Tensor {
		a, b, c := tensor.RandN(s, tensor.F32, 3, 4, 5), tensor.RandN(s, tensor.F32, 3, 4, 2), tensor.RandN(s, tensor.F32, 4, 3, 1).Transpose(0, 1)
		at := func(x *tensor.Tensor, v float64, before, after int) *tensor.Tensor {
			return x.Pad(v, [2]int{0, 0}, [2]int{0, 0}, [2]int{before, after})
		}
		return []*tensor.Tensor{at(b, 0, 5, 1).Add(at(a, 0, 0, 3)).Add(at(c, 0, 7, 0)), at(a, 1.5, 0, 3).Add(at(b, -2, 5, 1).Add(at(c, 0.25, 7, 0)))}
	}
	d := newTraced(t, cpu.Options{}, false)
	got, want := d.results(t, f), newTraced(t, cpu.Options{NoFuse: true}, false).results(t, f)
	if d.steps[compile.JoinPads] != 2 {
		t.Errorf("%d steps join pads, expected 2", d.steps[compile.JoinPads])
	}
	for i := range want {
		if e := relative(got[i], want[i]); !(e < 1e-6) {
			t.Errorf("sum %d of pads is off by %g", i, e)
		}
	}
}

// TestNormGradientsOfTwoEps wants gradients of a norm recorded with two different eps
// each to be computed with their own.
func TestNormGradientsOfTwoEps(t *testing.T) {
	f := func(s *tensor.Session) []*tensor.Tensor {
		x, dy, w := tensor.RandN(s, tensor.F32, 70, 20), tensor.RandN(s, tensor.F32, 70, 20), tensor.RandN(s, tensor.F32, 20)
		T, S := tensor.T, tensor.S
		return []*tensor.Tensor{
			s.Apply(tensor.OpRMSNormGradX, []int64{1}, T(x), T(dy), T(w), S(0.5)), s.Apply(tensor.OpRMSNormGradW, []int64{1}, T(x), T(dy), S(2)),
			s.Apply(tensor.OpLayerNormGradX, []int64{1}, T(x), T(dy), T(w), S(0.5)), s.Apply(tensor.OpLayerNormGradW, []int64{1}, T(x), T(dy), S(2)),
		}
	}
	d := newTraced(t, cpu.Options{}, false)
	got, want := d.results(t, f), newTraced(t, cpu.Options{NoFuse: true}, false).results(t, f)
	if d.steps[compile.NormGrad] != 2 {
		t.Errorf("%d steps are gradients of norms, expected 2", d.steps[compile.NormGrad])
	}
	for i := range want {
		if e := relative(got[i], want[i]); !(e < 1e-5) {
			t.Errorf("gradient %d is off by %g", i, e)
		}
	}
}

// TestFusedLossOfAWrongTarget wants a target out of range to be an error also in the step
// that computes the loss and its gradient.
func TestFusedLossOfAWrongTarget(t *testing.T) {
	for _, threads := range []int{1, 2} {
		d := newTraced(t, cpu.Options{Threads: threads}, threads > 1)
		s := tensor.NewSession(device.NewEngine(d.Device), nil)
		x := tensor.Ones(s, tensor.F32, 4, 3)
		x.RequireGrad()
		g, err := autograd.Grad(x.CrossEntropy(tensor.From(s, []int32{0, 1, 3, 2}), -100), x)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g[0].Sum().Item(); err == nil || !strings.Contains(fmt.Sprint(err), "3 at place 2") {
			t.Errorf("%d threads: a target of 3 in 3 classes gave %v", threads, err)
		}
		s.Close()
	}
}

// TestFoldsOfTiles tests sums, means and extremes at the end of elementwise operations:
// of rows shorter and longer than a tile, over some of the last dims and over all, of
// operands that broadcast, are strided or of other dtypes, with parts shared among
// threads.
func TestFoldsOfTiles(t *testing.T) {
	f := func(s *tensor.Session) []*tensor.Tensor {
		var out []*tensor.Tensor
		for _, sh := range [][]int{{5, 7}, {3, 1500}, {700, 3}, {2, 3, 4, 5}, {4, 1, 2100}, {3, 64, 16}, {2, 40, 70}} {
			last := len(sh) - 1
			x := tensor.RandN(s, tensor.F32, sh...)
			row := tensor.RandN(s, tensor.F32, sh[last])
			col := tensor.RandN(s, tensor.F32, append(append([]int{}, sh[:last]...), 1)...)
			turned := tensor.RandN(s, tensor.F32, append(append([]int{}, sh...), 2)...).Narrow(-1, 1, 1).Reshape(sh...)
			y, z := x.Mul(row).Add(col), x.MulS(3)
			out = append(out, x.Square().Sum(), y.Sum(-1), x.Sub(turned).Abs().Mean(last), x.MulS(2).Exp().Max(last-1, last),
				x.Add(turned).Min(-1), x.Cast(tensor.BF16).Cast(tensor.F32).Mul(x).Mean(), x.RSubS(1).SumKeep(-1), x.Neg().Reshape(-1, sh[last]).Max(1),
				x.AddS(1).Sum(0), z.Add(z.Flip(last)).Sum(-1), tensor.Where(x.GtS(0), x, turned).Sum(-1))
		}
		return out
	}
	for _, level := range levels() {
		want := newTraced(t, cpu.Options{Level: &level, NoFuse: true}, false).results(t, f)
		one := newTraced(t, cpu.Options{Level: &level}, false)
		got := one.results(t, f)
		for i := range want {
			if e := relative(got[i], want[i]); !(e < 1e-5) {
				t.Errorf("%v: result %d is off by %g", level, i, e)
			}
		}
		if n := one.steps[compile.TilesFold]; n < 7*8 {
			t.Errorf("%v: only %d steps fold tiles\n%v", level, n, one.names)
		}
		for i, x := range newTraced(t, cpu.Options{Level: &level, Threads: 2}, true).results(t, f) {
			if !bytes.Equal(x, got[i]) {
				t.Errorf("%v: result %d has other bits with two threads", level, i)
			}
		}
	}
}
