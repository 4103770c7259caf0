package enginetest

import (
	"math"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestBoundsFindErrors wants bounds that are not too wide: an error of a ten-thousandth
// must be found in most elements of every operation of floats (of the size of its terms,
// where they cancel), and one in the last place in those that must be exact.
func TestBoundsFindErrors(t *testing.T) {
	type count struct{ found, all int }
	counts := map[tensor.Op]*count{}
	for seed := range uint64(60) {
		p := recorded(t, func(s *tensor.Session) []*tensor.Tensor { return Generate(s, seed+1, 40) })
		results, err := interpret(p.p, p.inputs, p.scalars, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, in := range p.p.Instrs {
			if !in.DType.IsFloat() {
				continue
			}
			n := counts[in.Op]
			if n == nil {
				n = &count{}
				counts[in.Op] = n
			}
			want, tol, err := bound(callOf(p.p, i, results, p.inputs, p.scalars), 1)
			if err != nil {
				t.Fatal(err)
			}
			sizes, err := callOf(p.p, i, results, p.inputs, p.scalars).sizes()
			if err != nil {
				t.Fatal(err)
			}
			for k, x := range want.f {
				if math.Abs(x) < 1e-2 || math.IsInf(x, 0) || x != x {
					continue
				}
				wrong := want.clone()
				if tol == nil {
					wrong.f[k] *= 1 + 2*ulp(in.DType)
				} else {
					off := math.Abs(x)
					if sizes != nil {
						off = max(off, math.Abs(sizes.f[k]))
					}
					wrong.f[k] += 1e-4 * off
				}
				n.all++
				if differs(wrong, want, tol) != "" {
					n.found++
				}
			}
		}
	}
	for op, n := range counts {
		if n.all == 0 || n.found < n.all*9/10 {
			t.Errorf("%v: %d of %d errors were found", op, n.found, n.all)
		}
	}
}

// TestNoise wants noise to leave exact operations alone, and to be the same for the same
// key.
func TestNoise(t *testing.T) {
	p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
		x := put(s, ramp(0.1, 5))
		return []*tensor.Tensor{x.AddS(1), x.Exp()}
	})
	run := func(n *noise) []*array {
		out, err := interpret(p.p, p.inputs, p.scalars, n)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	plain, a, b := run(nil), run(&noise{key: 1}), run(&noise{key: 1})
	last := len(plain) - 1
	if differs(a[0], plain[0], nil) != "" {
		t.Error("an exact operation was disturbed")
	}
	if differs(a[last], plain[last], nil) == "" {
		t.Error("exp was not disturbed")
	}
	if diff := differs(a[last], b[last], nil); diff != "" {
		t.Errorf("the second time %s", diff)
	}
}

// TestNoiseOfEquality wants numbers that are equal except for roundings to be equal in
// some of the noisy runs and not in others, so that they are excluded.
func TestNoiseOfEquality(t *testing.T) {
	p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
		x := put(s, floats(tensor.Shape{4}, 0.1, 0.25, 3, math.Inf(1)))
		return []*tensor.Tensor{x.Exp().EqS(math.Exp(float64(float32(0.1)))), x.EqS(0.25)}
	})
	equal := func(k int) int64 {
		out, err := interpret(p.p, p.inputs, p.scalars, noiseOf(3, k))
		if err != nil {
			t.Fatal(err)
		}
		l := p.kept()
		for j, x := range out[l[1]].i {
			if want := j == 1; (x != 0) != want {
				t.Errorf("run %d finds an exact %v equal to 0.25", k, p.inputs[0].f[j])
			}
		}
		return out[l[0]].i[0]
	}
	seen := map[int64]bool{}
	for k := range disturbed {
		seen[equal(k)] = true
	}
	if len(seen) != 2 {
		t.Errorf("all %d noisy runs agree about an equality that hangs on a rounding", disturbed)
	}
}

// TestNoiseOfSigns wants results that depend on the sign of a sum of nothing but noise to
// be excluded, whatever the seed.
func TestNoiseOfSigns(t *testing.T) {
	p := recorded(t, func(s *tensor.Session) []*tensor.Tensor {
		x := put(s, ramp(0.1, 7))
		return []*tensor.Tensor{x.Exp().Sub(x.Exp()).Sum().GtS(0)}
	})
	last := p.kept()[0]
	for seed := range uint64(1000) {
		seen := map[int64]bool{}
		for k := range disturbed {
			out, err := interpret(p.p, p.inputs, p.scalars, noiseOf(seed, k))
			if err != nil {
				t.Fatal(err)
			}
			seen[out[last].i[0]] = true
		}
		if len(seen) != 2 {
			t.Fatalf("all noisy runs of seed %d agree about the sign of noise", seed)
		}
	}
}
