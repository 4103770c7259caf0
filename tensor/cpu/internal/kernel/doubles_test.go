package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/internal/elementary"
)

// TestDoubles compares the float64 kernels of every level with those in Go: all lengths,
// in place and not, with zeros, infinities and NaN among the numbers. Nothing is written
// beyond the length.
func TestDoubles(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-1060, math.MaxFloat64, 1, -1}
	// Those of parts: in another order of operations the others may overflow, or not.
	tame := []float64{0, math.Copysign(0, -1), math.NaN(), 0x1p-1060, 1, -1}
	for _, l := range Levels()[1:] {
		r := rand.New(rand.NewPCG(seed, uint64(l)))
		k, want := reflect.ValueOf(*Doubles(l)), reflect.ValueOf(*Portable[float64]())
		tried := 0
		for _, group := range []string{"Arithmetic", "Conversions", "Functions", "Reductions", "Gradients"} {
			for i := range k.FieldByName(group).NumField() {
				name := k.FieldByName(group).Type().Field(i).Name
				f, g := k.FieldByName(group).Field(i), want.FieldByName(group).Field(i)
				if f.Pointer() == g.Pointer() || name == "ToI32" || name == "ToI64" || strings.HasPrefix(name, "Pow") {
					continue // TestCuts has the conversions, TestDoublePowers the powers
				}
				tried++
				for _, n := range lengths() {
					compareDoubles(t, name, f, g, n, r, special)
				}
			}
		}
		parts, goParts := partsOfDoubles(Doubles(l)), partsOfDoubles(Portable[float64]())
		for name, f := range parts {
			tried++
			if reflect.ValueOf(f).Pointer() == reflect.ValueOf(goParts[name]).Pointer() {
				if l == NEON && (name == "expTotal" || name == "dlogsm") {
					continue
				}
				t.Errorf("%v has no assembly for %s", l, name)
			}
			for _, n := range lengths() {
				compareDoubles(t, name, reflect.ValueOf(f), reflect.ValueOf(goParts[name]), n, r, tame)
			}
		}
		if least := map[Level]int{AVX2: 37, AVX512: 37, AMX: 37, NEON: 30}[l]; tried < least {
			t.Errorf("%v has %d kernels of float64, expected at least %d", l, tried, least)
		}
	}
}

// partsOfDoubles returns the kernels that rows are made of.
func partsOfDoubles(k *Table[float64]) map[string]any {
	return map[string]any{
		"expTotal": k.expTotal, "dlogsm": k.dlogsm, "scaled": k.scaled, "shifted": k.shifted, "plain": k.plain,
		"normSums": k.normSums, "normSums1": k.normSums1, "normGrad": k.normGrad, "normGrad1": k.normGrad1,
		"addGrad": k.addGrad, "adamw": k.adamw,
	}
}

// compareDoubles calls a kernel and that of Go on n numbers: a slice for every argument
// that is one, at some place of a cache line.
func compareDoubles(t *testing.T, name string, f, g reflect.Value, n int, r *rand.Rand, special []float64) {
	t.Helper()
	reduces := f.Type().NumOut() > 0
	positive := func(x float64) float64 { return x }
	if name == "adamw" { // no divisor near 0, which would depend on the last bits
		positive = math.Abs
	}
	var args, same []reflect.Value
	var slice []float64
	for i := range f.Type().NumIn() {
		if f.Type().In(i).Kind() != reflect.Slice {
			s := reflect.ValueOf(positive(r.Float64()*4 - 2))
			args, same = append(args, s), append(same, s)
			continue
		}
		x := make([]float64, n+9)[r.IntN(8):]
		for j := range x[:n] {
			if x[j] = positive(r.Float64()*20 - 10); !reduces && r.IntN(8) == 0 {
				x[j] = special[r.IntN(len(special))]
			}
		}
		x[n] = 7
		if slice == nil {
			slice = x
		}
		args, same = append(args, reflect.ValueOf(x[:n])), append(same, reflect.ValueOf(slices.Clone(x[:n])))
	}
	if !reduces && name != "adamw" && len(args) > 1 && f.Type().In(1).Kind() == reflect.Slice && r.IntN(2) == 0 {
		args[0], same[0] = args[1], same[1] // in place
		slice = args[1].Interface().([]float64)
		slice = slice[:n+1]
	}
	got, want := f.Call(args), g.Call(same)
	if reduces {
		for i := range got {
			if a, b := got[i].Float(), want[i].Float(); a != b && !(math.Abs(a-b) <= 1e-9*max(1, math.Abs(b), float64(n))) {
				t.Fatalf("%s of %d numbers is %v, expected %v", name, n, a, b)
			}
		}
		return
	}
	if slice[n] != 7 {
		t.Fatalf("%s writes beyond %d numbers", name, n)
	}
	for i, b := range same[0].Interface().([]float64) {
		a := args[0].Interface().([]float64)[i]
		// rounded once, which also overflows less
		near := (name == "Axpy" || name == "Momentum" || strings.HasPrefix(strings.ToLower(name), "adam")) && (math.Abs(a-b) <= 1e-11*max(1, math.Abs(b)) || math.IsInf(b, 0) || b != b)
		e := doubleErrors[name]
		// terms that cancel, times the gradient of the output
		if strings.HasSuffix(name, "Grad") && f.Type().NumIn() == 3 {
			dy := math.Abs(same[2].Interface().([]float64)[i])
			e.floor *= max(1, dy)
			near = near || dy == math.MaxFloat64 // one may overflow
		}
		if !near && !(ulps64(a, b, e.floor) <= e.ulps) {
			t.Fatalf("%s of %d numbers: %v at %d, expected %v", name, n, a, i, b)
		}
	}
}

// doubleErrors are how far functions of float64 may be from those of package math, whose
// own error is in it, in ulp of the result, or of floor where that is more.
var doubleErrors = map[string]struct{ ulps, floor float64 }{
	"Exp": {2, 0}, "Log": {2, 0}, "Sin": {3, 0x1p-30}, "Cos": {3, 0x1p-30}, "Tanh": {4, 0},
	"Sigmoid": {4, 0}, "SiLU": {4, 0}, "GELUTanh": {4, 1}, "SiLUGrad": {16, 10}, "GELUTanhGrad": {16, 10},
	// e to the power of up to 10 and terms that cancel
	"dlogsm": {4, 1 << 16}, "scaled": {4, 1 << 9}, "normGrad": {8, 1 << 9}, "normGrad1": {8, 1 << 9}, "addGrad": {4, 1 << 9},
}

// ulps64 is ulps of float64.
func ulps64(got, want, floor float64) float64 {
	if got == want || got != got && want != want {
		return 0
	}
	if math.IsInf(want, 0) || math.IsInf(got, 0) || want != want || got != got {
		return math.Inf(1)
	}
	size := max(math.Abs(want), floor, 0x1p-1022)
	return math.Abs(got-want) / math.Ldexp(1, math.Ilogb(size)-52)
}

// TestDoubleFunctions compares functions of one number with those in Go over numbers of
// every exponent, of either sign, and over those that are not far from 1.
func TestDoubleFunctions(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var x []float64
	for e := range uint64(1 << 12) {
		for _, m := range []uint64{0, 1, 1<<52 - 1, r.Uint64N(1 << 52), r.Uint64N(1 << 52)} {
			x = append(x, math.Float64frombits(e<<52|m))
		}
	}
	for range 20000 {
		x = append(x, r.NormFloat64(), r.NormFloat64()*30, r.NormFloat64()*400, 1+r.NormFloat64()*1e-3)
	}
	for i := range 6000 { // about where sines and cosines are 0
		x = append(x, float64(i)*(math.Pi/2))
	}
	got, want := make([]float64, len(x)), make([]float64, len(x))
	for _, l := range Levels()[1:] {
		k, portable := reflect.ValueOf(*Doubles(l)).FieldByName("Functions"), reflect.ValueOf(*Portable[float64]()).FieldByName("Functions")
		for i := range k.NumField() {
			name := k.Type().Field(i).Name
			k.Field(i).Interface().(Unary[float64])(got, x)
			portable.Field(i).Interface().(Unary[float64])(want, x)
			worst, at := 0.0, 0.0
			e := doubleErrors[name]
			for j, w := range want {
				if u := ulps64(got[j], w, e.floor); !(u <= worst) {
					worst, at = u, x[j]
				}
			}
			t.Logf("%v %s: at most %.3f ulp, at %v", l, name, worst, at)
			if !(worst <= e.ulps) {
				t.Errorf("%v: %s is off by %.3g ulp at %v (%#016x), %v are allowed", l, name, worst, at, math.Float64bits(at), e.ulps)
			}
		}
	}
}

// TestDoublePowers compares powers of float64 with those by exact products and roots,
// over bases of all exponents and near 1 and exponents that are multiples of an eighth,
// so that results are of all sizes; and with package math where a result is 0,
// infinite, negative or no number.
func TestDoublePowers(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var x, y, want []float64
	for range 20000 {
		a := math.Float64frombits(r.Uint64N(0x7ff0 << 48))
		switch r.IntN(3) {
		case 0:
			a = 1 + r.NormFloat64()*math.Exp2(-float64(r.IntN(40)))
		case 1:
			a = math.Abs(r.NormFloat64())
		}
		a = math.Abs(a)
		// Beyond most, results overflow.
		most := min(8*746/max(math.Abs(math.Log(a)), 1e-3), 1<<20)
		n := math.Round((2*r.Float64() - 1) * most)
		x, y, want = append(x, a), append(y, n/8), append(want, exactPower(a, int(n)))
	}
	for _, a := range []float64{0, 1, 2, 0.5, math.Inf(1), math.NaN(), 0x1p-1060, math.MaxFloat64, 1 + 0x1p-52} {
		for _, b := range []float64{0, 1, 2, 3, 0.5, 2.5, 0x1p52, 0x1p53, 1<<53 - 1, 1e300, math.Inf(1), math.NaN(), 0x1p-1060} {
			for signs := range 4 {
				a, b := math.Copysign(a, float64(1-signs&2)), math.Copysign(b, float64(1-2*(signs&1)))
				x, y = append(x, a), append(y, b)
				want = append(want, elementary.Pow(a, b))
			}
		}
	}
	for _, l := range Levels() {
		k := Doubles(l)
		got, scalar := make([]float64, len(x)), make([]float64, 1)
		k.Pow(got, x, y)
		worst, at := 0.0, 0
		for i, w := range want {
			if k.PowS(scalar, x[i:i+1], y[i]); math.Float64bits(scalar[0]) != math.Float64bits(got[i]) && scalar[0] == scalar[0] {
				t.Fatalf("%v: %v to the power of %v is %v, of a scalar %v", l, x[i], y[i], got[i], scalar[0])
			}
			u := ulps64(got[i], w, 0)
			if w == 0 && math.Signbit(got[i]) != math.Signbit(w) {
				u = math.Inf(1)
			}
			if !(u <= worst) {
				worst, at = u, i
			}
		}
		t.Logf("%v: at most %.3f ulp, %v to the power of %v", l, worst, x[at], y[at])
		if !(worst <= 2) {
			t.Errorf("%v: %v to the power of %v is %v, expected %v: off by %.3g ulp, 2 are allowed",
				l, x[at], y[at], got[at], want[at], worst)
		}
	}
}

// exactPower returns a to the power of n/8, rounded once.
func exactPower(a float64, n int) float64 {
	x := new(big.Float).SetPrec(300).SetFloat64(a)
	for range 3 {
		x.Sqrt(x)
	}
	y := new(big.Float).SetPrec(300).SetInt64(1)
	for m := max(n, -n); m > 0; m >>= 1 {
		if m&1 != 0 {
			y.Mul(y, x)
		}
		x.Mul(x, x)
	}
	if n < 0 {
		y.Quo(big.NewFloat(1), y)
	}
	f, _ := y.Float64()
	return f
}
