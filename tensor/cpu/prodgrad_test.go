package cpu_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestProdGrad compares gradients of products with those of package big, on every level
// of kernels and in every layout: rows, columns, several dims, and elements apart.
func TestProdGrad(t *testing.T) {
	for _, level := range levels() {
		d, err := cpu.NewEager(&cpu.Options{Level: &level, Threads: 3, Arena: small})
		if err != nil {
			t.Fatal(err)
		}
		s := tensor.NewSession(device.NewEngine(d), nil)
		seed := rand.Uint64()
		t.Logf("%v: seed %d", level, seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, shape := range [][3]int{{1, 3, 700}, {2, 300, 19}, {3, 5, 40}, {1, 1, 4100}, {1, 1, 3}, {5, 1, 1}, {1, 1100, 7}, {1, 300, 32}, {2, 70, 2}} {
			for _, dims := range [][]int{{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}} {
				for _, dt := range []tensor.DType{tensor.F32, tensor.F64} {
					s.Scope(func(*tensor.Scope) { testProdGrad(t, s, rng, dt, shape, dims) })
				}
			}
		}
		s.Close()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// factors returns n numbers of a type whose product is of middle size, or overflows or
// underflows in many places.
func factors(rng *rand.Rand, dt tensor.DType, n int) []float64 {
	spread := map[tensor.DType][]int{tensor.F32: {1, 20, 120}, tensor.F64: {1, 20, 120, 1000}}[dt]
	most, shift := spread[rng.IntN(len(spread))], []float64{0, 0, 1, -1}[rng.IntN(4)]
	x := make([]float64, n)
	for i := range x {
		e := math.Round(float64(most) * (2*rng.Float64() - 1))
		x[i] = float64(float32(math.Ldexp(1+rng.Float64(), 0))) * math.Ldexp(float64(1-2*rng.IntN(2)), int(e+shift))
	}
	return x
}

func testProdGrad(t *testing.T, s *tensor.Session, rng *rand.Rand, dt tensor.DType, shape [3]int, dims []int) {
	in := factors(rng, dt, shape[0]*shape[1]*shape[2])
	kept := shape
	for _, d := range dims {
		kept[d] = 1
	}
	dy := make([]float64, kept[0]*kept[1]*kept[2])
	for i := range dy {
		dy[i] = float64(float32(rng.NormFloat64()))
	}
	var ints []int64
	for _, d := range dims {
		ints = append(ints, int64(d))
	}
	x, g := tensor.From(s, in, shape[:]...).Cast(dt), tensor.From(s, dy, kept[:]...).Cast(dt)
	got := s.Apply(tensor.OpProdGrad, ints, tensor.T(x), tensor.T(g))
	turned := s.Apply(tensor.OpProdGrad, ints, tensor.T(x.Transpose(0, 2).Barrier().Transpose(0, 2)), tensor.T(g))
	apart := make([]float64, 2*len(in))
	for i, v := range in {
		apart[2*i] = v
	}
	every2 := tensor.From(s, apart, shape[0], shape[1], 2*shape[2]).Cast(dt).Slice(tensor.By(tensor.All, tensor.All, 1), tensor.By(tensor.All, tensor.All, 1), tensor.By(tensor.All, tensor.All, 2))
	spaced := s.Apply(tensor.OpProdGrad, ints, tensor.T(every2), tensor.T(g))
	var outs [3][]float64
	for i, y := range []*tensor.Tensor{got, turned, spaced} {
		var err error
		if outs[i], err = tensor.Data[float64](y.Cast(tensor.F64)); err != nil {
			t.Fatal(err)
		}
	}
	placeOf := make([]float64, len(in))
	for i := range placeOf {
		placeOf[i] = float64(i)
	}
	for i, at := range groups(placeOf, shape, dims) {
		all := new(big.Float).SetPrec(80).SetFloat64(dy[i])
		for _, k := range at {
			all.Mul(all, big.NewFloat(in[int(k)]))
		}
		for _, k := range at {
			want, _ := new(big.Float).Quo(all, big.NewFloat(in[int(k)])).Float64()
			for l, name := range []string{"dense", "transposed", "of every other column"} {
				if out := outs[l][int(k)]; !isOther(dt, out, want, dy[i], len(at)) {
					t.Fatalf("%v %v over %v, %s, %d of the factors of %d: %v, expected %v", dt, shape, dims, name, int(k), i, out, want)
				}
			}
		}
	}
}

// isOther reports whether got is want in the type dt, within the rounding of n products.
// The product overflows and underflows before it is multiplied by dy.
func isOther(dt tensor.DType, got, want, dy float64, n int) bool {
	least, most, ulp := 0x1p-1074, math.MaxFloat64, float64(n+4)*0x1p-53
	if dt == tensor.F32 {
		least, most, ulp = 0x1p-149, math.MaxFloat32, 0x1p-23
	}
	if math.Abs(got-want) <= math.Abs(want)*ulp+least*(2+math.Abs(dy)) {
		return true
	}
	return math.Abs(want) >= most*min(math.Abs(dy), 1)*(1-2*ulp) && math.IsInf(got, int(math.Copysign(1, want)))
}
