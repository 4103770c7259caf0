package cuda_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/device"
)

// These are for a machine with a GPU and without gcc, see docs/gpu.md.
var (
	given  = flag.String("library", "", "run the suites of engines over this libcuda.so.1 instead of a stand-in of the test's own")
	beside = flag.String("beside", "", "the stand-in that TestBeside compares the library with, instead of one of the test's own")
	values = flag.Int("values", 3000, "the values of each operation in TestValues")
)

// opened returns the driver of a library, or of a stand-in of the test's own if it is "".
func opened(t *testing.T, library string, seed uint64) driver.API {
	t.Helper()
	if library == "" {
		api, _ := cudatest.Open(t, seed, os.Getenv)
		return api
	}
	api, err := dlopen.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// spread counts elements by how many units of the last place lie between two results.
type spread struct {
	elements [66]int // [0] equal, [n] 2^(n-1) and more units
	most     uint64
}

// add compares two elements of dtype d. Two NaN are equal, and zeros of two signs are one
// unit apart.
func (a *spread) add(d tensor.DType, x, y float64) {
	var n uint64
	switch {
	case x == 0 && y == 0 && math.Signbit(x) != math.Signbit(y):
		n = 1
	case x == y, x != x && y != y:
	case x != x || y != y:
		n = math.MaxUint64
	case d == tensor.F64:
		n = distance(ordered(int64(math.Float64bits(x)), math.MaxInt64), ordered(int64(math.Float64bits(y)), math.MaxInt64))
	case d.IsFloat():
		unit := uint64(1)
		switch d {
		case tensor.F16:
			unit = 1 << 13
		case tensor.BF16:
			unit = 1 << 16
		}
		word := func(v float64) int64 { return ordered(int64(int32(math.Float32bits(float32(v)))), math.MaxInt32) }
		n = (distance(word(x), word(y)) + unit - 1) / unit
	default:
		n = uint64(math.Abs(x - y))
	}
	a.most = max(a.most, n)
	a.elements[bits.Len64(n)]++
}

// ordered makes the bits of a float count up with its value. most is the largest integer
// of its size.
func ordered(bits, most int64) int64 {
	if bits < 0 {
		return -(bits & most)
	}
	return bits
}

// distance returns by how much two integers differ.
func distance(a, b int64) uint64 { return uint64(max(a, b)) - uint64(min(a, b)) }

// String prints how many elements are how far apart.
func (a *spread) String() string {
	var all []string
	for i, n := range a.elements {
		switch {
		case n == 0:
		case i < 2:
			all = append(all, fmt.Sprintf("%d: %d", i, n))
		default:
			all = append(all, fmt.Sprintf("%d+: %d", uint64(1)<<(i-1), n))
		}
	}
	return "units apart: " + strings.Join(all, ", ")
}

// result is a result with the dtype that it was computed in.
type result struct {
	d      tensor.DType
	values []float64
}

// resultsOf returns the results of f.
func resultsOf(t *testing.T, s *tensor.Session, f func(o *operands) []*tensor.Tensor) (out []result) {
	t.Helper()
	o := &operands{s: s, made: 1}
	var dtypes []tensor.DType
	all := compute(t, s, func(*operands) []*tensor.Tensor {
		made := f(o)
		for _, x := range made {
			dtypes = append(dtypes, x.DType())
		}
		return made
	})
	for i, v := range all {
		out = append(out, result{dtypes[i], v})
	}
	return out
}

// randomShapes are kernels of every group at shapes of a seed.
func randomShapes(seed uint64) func(o *operands) []*tensor.Tensor {
	return func(o *operands) (out []*tensor.Tensor) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := func() int { return 1 + r.IntN(40)*r.IntN(4) + r.IntN(9) }
		for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
			a, b, c, k := n(), n(), n(), n()
			x, y, w := o.of(d, a, b), o.of(d, b, c), o.of(d, b)
			image := o.of(d, 1+r.IntN(2), 1+r.IntN(3), 4+r.IntN(9), 4+r.IntN(9))
			out = append(out, x.Matmul(y), x.Add(w).Mul(x).Exp(), x.Softmax(1), x.LogSoftmax(0), x.LayerNorm(w, w, 1e-5, 1), x.RMSNorm(w, 1e-5),
				x.Sum(0), x.Mean(1), x.Max(1), x.Prod(0), x.Argmax(1), x.Cumsum(r.IntN(2)), x.T(), x.T().Mul(o.of(d, b, a)), o.of(d, 2, a, b).T(),
				x.IndexSelect(0, tensor.From(o.s, []int64{int64(r.IntN(a)), 0}, 2)), tensor.Concat(0, x, w.Reshape(1, b)), x.Tril(r.IntN(3)),
				image.MaxPool2D(2, 1, 0), image.AvgPool2D(2, 2, 0), image.Conv2D(o.of(d, 2, image.Shape()[1], 3, 2), nil, tensor.ConvOptions{}),
				tensor.Rand(o.s, d, k), tensor.RandN(o.s, d, k), x.Dropout(0.25), x.Cast(tensor.BF16).Mul(x.Cast(tensor.BF16)), x.Cast(tensor.F16).Sum(0))
		}
		return out
	}
}

// TestBeside runs every kind of step, and kernels at random shapes, over the library that
// is given and over the stand-in: with the kernels of this package both have the same
// bits. Without a library two orders of blocks and warps are compared.
func TestBeside(t *testing.T) {
	type side struct {
		s *tensor.Session
		d *cuda.Device
	}
	var sides [2]side
	for i, library := range []string{*given, *beside} {
		d := open(t, opened(t, library, uint64(i+1)), small)
		s := tensor.NewSession(device.NewOwner(d), nil)
		defer s.Close()
		sides[i] = side{s, d}
	}
	var all spread
	both := func(name string, f func(o *operands) []*tensor.Tensor) {
		a, b := resultsOf(t, sides[0].s, f), resultsOf(t, sides[1].s, f)
		var of spread
		for i := range a {
			for k, v := range a[i].values {
				of.add(a[i].d, v, b[i].values[k])
				all.add(a[i].d, v, b[i].values[k])
			}
		}
		if of.most > 0 {
			t.Errorf("%s: %v", name, &of)
		}
	}
	for _, k := range kinds {
		if *given != "" { // else TestKinds compares two orders
			both(k.name, k.f)
		}
	}
	seeds := 12
	if testsize.Sampled() {
		seeds = 2
	}
	for seed := range seeds {
		both(fmt.Sprint("random shapes, seed ", seed), randomShapes(uint64(seed)))
	}
	for i, x := range sides {
		if c := x.d.Counters(); len(c.HostSteps) > 0 {
			t.Errorf("side %d: on the host ran %v", i, c.HostSteps)
		}
	}
	t.Log(&all)
}

// exact are operations of which IEEE 754 or integers define every bit, and functions
// those that kernels compute by polynomials.
var (
	exact = map[string]func(x, y *tensor.Tensor) *tensor.Tensor{
		"add": (*tensor.Tensor).Add, "sub": (*tensor.Tensor).Sub, "mul": (*tensor.Tensor).Mul, "div": (*tensor.Tensor).Div,
		"max": (*tensor.Tensor).Maximum, "min": (*tensor.Tensor).Minimum, "sqrt": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Sqrt() },
		"floor": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Floor() }, "ceil": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Ceil() },
		"recip": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Reciprocal() }, "lt": (*tensor.Tensor).Lt,
		"to f32":  func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Cast(tensor.F32) },
		"to f16":  func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Cast(tensor.F16) },
		"to bf16": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Cast(tensor.BF16) },
		"to i32":  func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Clamp(-1e9, 1e9).Cast(tensor.I32) },
		"to u8":   func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Clamp(0, 255).Cast(tensor.U8) },
		"rand":    func(x, _ *tensor.Tensor) *tensor.Tensor { return tensor.Rand(x.Session(), x.DType(), x.Shape()...) },
		"dropout": func(x, _ *tensor.Tensor) *tensor.Tensor { return x.Dropout(0.4) },
	}
	functions = map[string]func(x *tensor.Tensor) *tensor.Tensor{
		"exp": (*tensor.Tensor).Exp, "log": (*tensor.Tensor).Log, "sin": (*tensor.Tensor).Sin, "cos": (*tensor.Tensor).Cos,
		"tanh": (*tensor.Tensor).Tanh, "sigmoid": (*tensor.Tensor).Sigmoid, "gelu": (*tensor.Tensor).GELU, "silu": (*tensor.Tensor).SiLU,
		"erf": (*tensor.Tensor).Erf, "rsqrt": (*tensor.Tensor).Rsqrt,
	}
)

// TestValues computes operations of many random values on the device and by the cpu
// engine. Operations of which every bit is defined have equal bits. How far functions are
// apart is logged.
func TestValues(t *testing.T) {
	host, err := cpu.New(&cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	gpu := open(t, opened(t, *given, 1), small)
	var sessions [2]*tensor.Session
	for i, o := range []device.Device{host, gpu} {
		sessions[i] = tensor.NewSession(device.NewOwner(o), nil)
		defer sessions[i].Close()
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.F64} {
		run := func(name string, ordinary bool, f func(x, y *tensor.Tensor) *tensor.Tensor) *spread {
			var sides [2][]result
			for i, s := range sessions {
				sides[i] = resultsOf(t, s, func(*operands) []*tensor.Tensor {
					r := rand.New(rand.NewPCG(9, uint64(d)))
					return []*tensor.Tensor{f(drawn(s, d, r, ordinary), drawn(s, d, r, ordinary))}
				})
			}
			a := &spread{}
			for k, v := range sides[0][0].values {
				a.add(sides[0][0].d, v, sides[1][0].values[k])
			}
			t.Logf("%s of %v, %v", name, d, a)
			return a
		}
		for _, name := range slices.Sorted(maps.Keys(exact)) {
			if a := run(name, false, exact[name]); a.most > 0 {
				t.Errorf("%s of %v: %v", name, d, a)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(functions)) {
			run(name, true, func(x, _ *tensor.Tensor) *tensor.Tensor { return functions[name](x) })
		}
	}
}

// edges are values at which operations have cases of their own.
var edges = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat32, -math.MaxFloat32}

// drawn returns as many values as TestValues takes. Ordinary ones are normal numbers
// around 0; of others half have any bits, and some are edges.
func drawn(s *tensor.Session, d tensor.DType, r *rand.Rand, ordinary bool) *tensor.Tensor {
	x32, x64 := make([]float32, *values), make([]float64, *values)
	for i := range x32 {
		x64[i] = 4 * r.NormFloat64()
		if !ordinary && i%16 == 1 {
			x64[i] = edges[r.IntN(len(edges))]
		}
		x32[i] = float32(x64[i])
		if !ordinary && i%2 == 0 {
			x64[i], x32[i] = math.Float64frombits(r.Uint64()), math.Float32frombits(r.Uint32())
		}
	}
	if d == tensor.F64 {
		return tensor.From(s, x64, *values)
	}
	return tensor.From(s, x32, *values)
}
