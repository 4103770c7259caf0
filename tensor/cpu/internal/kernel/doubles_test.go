package kernel

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestDoubles compares the float64 kernels of every level with those in Go: all lengths,
// in place and not, with zeros, infinities and NaN among the numbers. Nothing is written
// beyond the length.
func TestDoubles(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-1060, math.MaxFloat64, 1, -1}
	for _, l := range Levels()[1:] {
		r := rand.New(rand.NewPCG(seed, uint64(l)))
		k, want := reflect.ValueOf(*Doubles(l)), reflect.ValueOf(*Portable[float64]())
		tried := 0
		for _, group := range []string{"Arithmetic", "Conversions", "Functions", "Reductions", "Gradients"} {
			for i := range k.FieldByName(group).NumField() {
				name := k.FieldByName(group).Type().Field(i).Name
				f, g := k.FieldByName(group).Field(i), want.FieldByName(group).Field(i)
				if f.Pointer() == g.Pointer() {
					continue
				}
				tried++
				for _, n := range lengths() {
					compareDoubles(t, name, f, g, n, r, special)
				}
			}
		}
		if tried < 25 {
			t.Errorf("%v has %d kernels of float64, expected at least 25", l, tried)
		}
	}
}

// compareDoubles calls a kernel and that of Go on n numbers: a slice for every argument
// that is one, at some place of a cache line.
func compareDoubles(t *testing.T, name string, f, g reflect.Value, n int, r *rand.Rand, special []float64) {
	t.Helper()
	reduces := f.Type().NumOut() > 0
	var args, same []reflect.Value
	var slice []float64
	for i := range f.Type().NumIn() {
		if f.Type().In(i).Kind() != reflect.Slice {
			s := reflect.ValueOf(r.Float64()*4 - 2)
			args, same = append(args, s), append(same, s)
			continue
		}
		x := make([]float64, n+9)[r.IntN(8):]
		for j := range x[:n] {
			if x[j] = r.Float64()*20 - 10; !reduces && r.IntN(8) == 0 {
				x[j] = special[r.IntN(len(special))]
			}
		}
		x[n] = 7
		if slice == nil {
			slice = x
		}
		args, same = append(args, reflect.ValueOf(x[:n])), append(same, reflect.ValueOf(slices.Clone(x[:n])))
	}
	if !reduces && len(args) > 1 && f.Type().In(1).Kind() == reflect.Slice && r.IntN(2) == 0 {
		args[0], same[0] = args[1], same[1] // in place
		slice = args[1].Interface().([]float64)
		slice = slice[:n+1]
	}
	got, want := f.Call(args), g.Call(same)
	if reduces {
		if a, b := got[0].Float(), want[0].Float(); a != b && !(math.Abs(a-b) <= 1e-9*max(1, math.Abs(b), float64(n))) {
			t.Fatalf("%s of %d numbers is %v, expected %v", name, n, a, b)
		}
		return
	}
	if slice[n] != 7 {
		t.Fatalf("%s writes beyond %d numbers", name, n)
	}
	for i, b := range same[0].Interface().([]float64) {
		a := args[0].Interface().([]float64)[i]
		// rounded once, which also overflows less
		near := name == "Axpy" && (math.Abs(a-b) <= 1e-13*max(1, math.Abs(b)) || math.IsInf(b, 0) || b != b)
		if a != b && (a == a || b == b) && !near {
			t.Fatalf("%s of %d numbers: %v at %d, expected %v", name, n, a, i, b)
		}
	}
}
