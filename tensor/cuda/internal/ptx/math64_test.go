package ptx

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// apply returns the results of an elementwise operation of f64 on the interpreter.
func apply(t *testing.T, g *cudatest.GPU, op tensor.Op, in ...[]float64) []float64 {
	t.Helper()
	n := len(in[0])
	o := compile.Operand{Scalar: -1, DType: tensor.F64, Shape: tensor.Shape{n}, Strides: []int{1}, Dense: true}
	s := &compile.Step{Op: op, Out: o}
	var a driver.Args
	for _, x := range in {
		s.In = append(s.In, o)
		var b []byte
		for _, v := range x {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		a.Pointer(g.Bytes(t, b))
	}
	k := Tiles(Elementwise(s))
	if k == nil {
		t.Fatalf("%v of f64 has no kernel", op)
	}
	p := g.Bytes(t, make([]byte, 8*n))
	a.Pointer(p).Uint32(uint32(n))
	g.Run(t, g.Function(t, k.Text, Name), driver.Launch{Grid: [3]uint32{uint32(k.Grid()), 1, 1}, Block: [3]uint32{Threads, 1, 1}}, &a)
	b, out := make([]byte, 8*n), make([]float64, n)
	if err := g.CopyDtoH(b, p); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

// ulps returns how far x is from want, in units of the last place of want.
func ulps(x, want float64) float64 {
	if x == want || x != x && want != want {
		return 0
	}
	unit := math.Abs(want) - math.Nextafter(math.Abs(want), 0)
	return math.Abs(x-want) / max(unit, math.SmallestNonzeroFloat64)
}

// numbers returns n numbers of both signs whose sizes lie between two powers of e.
func numbers(seed uint64, n int, least, most float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 64))
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Copysign(math.Exp(least+(most-least)*r.Float64()), r.Float64()-0.5)
	}
	return out
}

// logarithm is math.Log, which on some machines is wrong for subnormal numbers.
func logarithm(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// TestFunctions64 compares the functions of f64 with Go's, which are within a unit of the
// last place, on numbers of all sizes and on special ones.
func TestFunctions64(t *testing.T) {
	g := cudatest.New(t, 0, os.Getenv)
	special := []float64{
		0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, 1e-310, -1e-310, math.MaxFloat64, -math.MaxFloat64,
		0.5, 2, -2, 27, -27, 709.7, -745, 710, -746, math.Sqrt2 / 2, 22, 28,
	}
	for _, c := range []struct {
		op    tensor.Op
		f     func(x float64) float64
		most  float64 // the largest power of e
		units float64
	}{
		{tensor.OpExp, math.Exp, math.Log(740), 2},
		{tensor.OpLog, logarithm, 700, 2},
		{tensor.OpSin, math.Sin, math.Log(1e5), 3},
		{tensor.OpCos, math.Cos, math.Log(1e5), 3},
		{tensor.OpTanh, math.Tanh, math.Log(30), 4},
		{tensor.OpErf, math.Erf, math.Log(8), 3},
		{tensor.OpSigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, math.Log(700), 4},
		{tensor.OpGelu, func(x float64) float64 { return x * math.Erfc(-x*(math.Sqrt2/2)) / 2 }, math.Log(37), 8},
	} {
		x := append(numbers(uint64(c.op), 1500, -8, c.most), numbers(uint64(c.op)+1, 300, -600, c.most)...)
		for _, v := range special {
			if c.op != tensor.OpSin && c.op != tensor.OpCos && c.op != tensor.OpGelu || math.Abs(v) < 1e5 || math.IsNaN(v) {
				x = append(x, v)
			}
		}
		worst, at := 0.0, 0.0
		for i, y := range apply(t, g, c.op, x) {
			want := c.f(x[i])
			if math.Signbit(y) != math.Signbit(want) && want == want && want != 0 {
				t.Errorf("%v of %g is %g, want %g", c.op, x[i], y, want)
			}
			if d := ulps(y, want); !(d <= worst) {
				worst, at = d, x[i]
			}
		}
		t.Logf("%v: at most %.2f units of the last place, at %g", c.op, worst, at)
		if !(worst <= c.units) {
			t.Errorf("%v of %g is %g units of the last place off, want at most %g", c.op, at, worst, c.units)
		}
	}
}

// TestQuarters64 compares sines and cosines next to multiples of π/2, where the angle's
// rest has few bits, with those of the exact rest.
func TestQuarters64(t *testing.T) {
	g := cudatest.New(t, 0, os.Getenv)
	x := []float64{math.Pi, math.Pi / 2}
	sin, cos := apply(t, g, tensor.OpSin, x), apply(t, g, tensor.OpCos, x)
	if sin[0] != 1.2246467991473532e-16 || cos[1] != 6.123233995736766e-17 || sin[1] != 1 || cos[0] != -1 {
		t.Errorf("sines %v and cosines %v of %v", sin, cos, x)
	}
}

// TestPower64 compares powers with products of integers of any size: a power whose
// mantissa fits is exact, and others are within a unit of the last place. Special ones
// are those of math.Pow.
func TestPower64(t *testing.T) {
	g := cudatest.New(t, 0, os.Getenv)
	r := rand.New(rand.NewPCG(1, 65))
	var x, y, want []float64
	for range 2000 {
		base, n := r.IntN(1<<20)+2, r.IntN(60)
		if n > 20 {
			base = base%99 + 2
		}
		v, _ := new(big.Float).SetPrec(2000).SetInt(new(big.Int).Exp(big.NewInt(int64(base)), big.NewInt(int64(n)), nil)).Float64()
		x, y, want = append(x, float64(base)), append(y, float64(n)), append(want, v)
	}
	for range 500 { // roots of numbers near 1 to powers with a fraction
		base, n := 1+(r.Float64()-0.5)/4, r.IntN(4000)-2000
		v := new(big.Float).SetPrec(500).SetInt64(1)
		for range max(n, -n) {
			v.Mul(v, big.NewFloat(base))
		}
		if n < 0 {
			v.Quo(big.NewFloat(1).SetPrec(500), v)
		}
		f, _ := v.Sqrt(v).Float64()
		x, y, want = append(x, base), append(y, float64(n)/2), append(want, f)
	}
	worst := 0.0
	for i, v := range apply(t, g, tensor.OpPow, x, y) {
		d := ulps(v, want[i])
		worst = max(worst, d)
		if exact := want[i] < 1<<53 && i < 2000; exact && d != 0 || !(d <= 1) {
			t.Errorf("%g to %g is %v, want %v", x[i], y[i], v, want[i])
		}
	}
	t.Logf("at most %.2f units of the last place", worst)

	odd := []float64{0, 1, 2, 3, 0.5, 2.5, 1e300, 1e-300, 1 << 53, 1<<53 + 2, math.Inf(1), math.NaN(), 5e-324}
	x, y = nil, nil
	for _, a := range odd {
		for _, b := range odd {
			x = append(x, a, -a, a, -a)
			y = append(y, b, b, -b, -b)
		}
	}
	for i, v := range apply(t, g, tensor.OpPow, x, y) {
		w := math.Pow(x[i], y[i])
		if !(ulps(v, w) <= 8) || w == w && math.Signbit(v) != math.Signbit(w) {
			t.Errorf("%g to %g is %g, want %g", x[i], y[i], v, w)
		}
	}
}
