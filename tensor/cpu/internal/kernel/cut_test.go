package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCuts compares with Go the conversions to integers of every level, at all lengths
// and places of numbers that 32 or 64 bits can't hold. Nothing is written beyond them.
func TestCuts(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		checkCuts(t, r, "I32 of f32", k.ToI32, toI32Go[float32])
		checkCuts(t, r, "I64 of f32", k.ToI64, toI64Go[float32])
		d := Doubles(k.Level)
		checkCuts(t, r, "I32 of f64", d.ToI32, toI32Go[float64])
		checkCuts(t, r, "I64 of f64", d.ToI64, toI64Go[float64])
	})
}

func checkCuts[T Float, U int32 | int64](t *testing.T, r *rand.Rand, what string, f, want func(dst []U, x []T)) {
	t.Helper()
	special := []T{T(math.NaN()), T(math.Inf(1)), T(math.Inf(-1)), 1 << 31, -(1 << 31), -(1<<31 + 256), 1<<31 - 128, 1 << 62, 1 << 63, -(1 << 63), 1e30, T(math.Copysign(0, -1)), 0.9, -0.9, 1e-40}
	for _, rare := range []int{3, 100, 1 << 30} {
		for _, n := range lengths() {
			x := make([]T, n+8)[r.IntN(8):][:n]
			for i := range x {
				if x[i] = T(r.NormFloat64() * 1e4); r.IntN(rare) == 0 {
					x[i] = special[r.IntN(len(special))]
				}
			}
			got := slices.Repeat([]U{7}, n+9)
			all := slices.Clone(got)
			at := r.IntN(8)
			f(got[at:at+n], x)
			want(all[at:at+n], x)
			if i := slices.Compare(got, all); i != 0 {
				for i := range got {
					if got[i] != all[i] {
						t.Fatalf("%s, %d numbers: %v is %v at %d, expected %v", what, n, x[max(i-at, 0)], got[i], i-at, all[i])
					}
				}
			}
		}
	}
}

// TestCut wants the right integers of the numbers about the ends of both ranges.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want int64
		less int32
	}{
		{math.NaN(), 0, 0}, {-1.9, -1, -1}, {1 << 31, 1 << 31, math.MaxInt32}, {-(1<<31 + 1), -(1<<31 + 1), math.MinInt32},
		{math.Inf(1), math.MaxInt64, math.MaxInt32}, {-1 << 63, math.MinInt64, math.MinInt32}, {-1e300, math.MinInt64, math.MinInt32},
	} {
		if got, less := CutI64(c.x), CutI32(c.x); got != c.want || less != c.less {
			t.Errorf("%v is cut to %d and %d, expected %d and %d", c.x, got, less, c.want, c.less)
		}
	}
}

// TestWidths compares the conversions between the floats with Go's.
func TestWidths(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 0x1p-149, 0x1p-150, 0x1.8p-150, 1 + 0x1p-24, math.Copysign(0, -1)}
		for _, n := range lengths() {
			x := make([]float64, n)
			for i := range x {
				if x[i] = r.NormFloat64(); r.IntN(4) == 0 {
					x[i] = special[r.IntN(len(special))]
				}
			}
			narrow, wide := newFenced(n, r.IntN(17), r.Float32), make([]float64, n+1)
			wide[n] = 7
			k.Single(narrow.v, x)
			narrow.intact(t, "Single")
			k.Double(wide[:n], narrow.v)
			for i, v := range narrow.v {
				if !identical(v, float32(x[i])) || wide[i] != float64(v) && v == v {
					t.Fatalf("%v of %d: as float32 %v, back %v", x[i], n, v, wide[i])
				}
			}
			if wide[n] != 7 {
				t.Fatalf("Double writes beyond %d numbers", n)
			}
		}
	})
}
