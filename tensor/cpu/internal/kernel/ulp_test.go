package kernel

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
)

// ulpStep is the distance between the bit patterns that TestEveryExponent tries. With 1
// it tries all 2³² numbers, on one core in some minutes a kernel.
var ulpStep = flag.Uint("ulp.step", 1<<14+1, "try every so manieth float32")

// patterns calls f with float32 numbers of every sign and exponent: every ulpStep-th bit
// pattern from a random one on, and the first, second and last number of each exponent.
// They come in pieces, of which the last is short.
func patterns(r *rand.Rand, f func(x []float32)) {
	x := make([]float32, 0, 1<<13+5)
	add := func(bits uint32) {
		x = append(x, math.Float32frombits(bits))
		if len(x) == cap(x) {
			f(x)
			x = x[:0]
		}
	}
	for u := uint64(r.Uint32N(uint32(*ulpStep))); u < 1<<32; u += uint64(*ulpStep) {
		add(uint32(u))
	}
	for e := range uint32(1 << 9) {
		for _, m := range []uint32{0, 1, 1<<23 - 1} {
			add(e<<23 | m)
		}
	}
	f(x)
}

// TestEveryExponent wants every function of one number to keep its bound over all
// float32: every exponent of either sign, subnormal numbers, infinities and NaN.
// Gradients are those of a 1.
func TestEveryExponent(t *testing.T) {
	var tables []*Table[float32]
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, k)
	}
	const seed = 11
	t.Logf("seed %d, every %dth number", seed, *ulpStep)
	for _, e := range elementwises() {
		if !e.everywhere {
			continue
		}
		worst, at := make([]float64, len(tables)), make([]float32, len(tables))
		r := rand.New(rand.NewPCG(seed, 1))
		var want []float64
		patterns(r, func(x []float32) {
			want = want[:0]
			for _, v := range x {
				want = append(want, e.want(float64(v), 1, 0, 0))
			}
			off := r.IntN(17)
			ones, dst := make([]float32, len(x)), make([]float32, off+len(x)+1)[off:]
			for i := range ones {
				ones[i] = 1
			}
			for i, k := range tables {
				dst[len(x)] = 7
				e.run(k, dst[:len(x)], [3][]float32{x, ones}, 0)
				for j, got := range dst[:len(x)] {
					if u := ulps(got, want[j], e.floor); !(u <= worst[i]) {
						worst[i], at[i] = u, x[j]
					}
				}
				if dst[len(x)] != 7 {
					t.Fatalf("%s on %v writes beyond %d numbers", e.name, k.Level, len(x))
				}
			}
		})
		for i, k := range tables {
			t.Logf("%-12s %-6v at most %.3f ulp, at %v (%#08x)", e.name, k.Level, worst[i], at[i], math.Float32bits(at[i]))
			if !(worst[i] <= e.bound) {
				t.Errorf("%s on %v is off by %.3g ulp at %v (%#08x), %v are allowed", e.name, k.Level, worst[i], at[i], math.Float32bits(at[i]), e.bound)
			}
		}
	}
}
