package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
)

func text(t *testing.T, module string) string {
	t.Helper()
	s, err := PTX(module)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run is a kernel over rows that makes one result of x.
type run struct {
	gpu  *cudatest.GPU
	rows uint32
}

func (r run) launch(t *testing.T, module, kernel string, a *driver.Args) fakecuda.Launch {
	t.Helper()
	return r.gpu.Run(t, r.gpu.Function(t, text(t, module), kernel),
		driver.Launch{Grid: [3]uint32{r.rows, 1, 1}, Block: [3]uint32{256, 1, 1}}, a)
}

func random(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// reference computes a kernel in float64 on a row, given also the scale and shift.
type reference func(x, scale, shift []float32) []float64

func mean(x []float32, f func(float64) float64) float64 {
	var s float64
	for _, v := range x {
		s += f(float64(v))
	}
	return s / float64(len(x))
}

func identity(v float64) float64 { return v }

func sum(x, _, _ []float32) []float64 { return []float64{mean(x, identity) * float64(len(x))} }

func largest(x, _, _ []float32) []float64 { return []float64{float64(slices.Max(x))} }

func softmax(x, _, _ []float32) []float64 {
	m := float64(slices.Max(x))
	all := mean(x, func(v float64) float64 { return math.Exp(v - m) }) * float64(len(x))
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Exp(float64(v)-m) / all
	}
	return out
}

const epsilon = 1e-5

func layernorm(x, scale, shift []float32) []float64 {
	m := mean(x, identity)
	d := math.Sqrt(mean(x, func(v float64) float64 { return (v - m) * (v - m) }) + epsilon)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = (float64(v)-m)/d*float64(scale[i]) + float64(shift[i])
	}
	return out
}

func rmsnorm(x, scale, _ []float32) []float64 {
	d := math.Sqrt(mean(x, func(v float64) float64 { return v * v }) + epsilon)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v) / d * float64(scale[i])
	}
	return out
}

func cumsum(x, _, _ []float32) []float64 {
	out := make([]float64, len(x))
	var s float64
	for i, v := range x {
		s += float64(v)
		out[i] = s
	}
	return out
}

// TestRows compares kernels of rows with float64, at several shapes and seeds of the
// order of warps and blocks. All seeds must give the same bits, and all accesses the
// fewest sectors.
func TestRows(t *testing.T) {
	for _, c := range []struct {
		module, kernel string
		want           reference
		args           func(a *driver.Args, x, scale, shift, y driver.DevicePtr, columns uint32)
	}{
		{"reduce", "sum_f32", sum, func(a *driver.Args, x, _, _, y driver.DevicePtr, columns uint32) {
			a.Pointer(x).Pointer(y).Uint32(columns).Uint32(columns).Float32(1)
		}},
		{"reduce", "max_f32", largest, func(a *driver.Args, x, _, _, y driver.DevicePtr, columns uint32) {
			a.Pointer(x).Pointer(y).Uint32(columns).Uint32(columns)
		}},
		{"softmax", "softmax_f32", softmax, plain},
		{"scan", "cumsum_f32", cumsum, plain},
		{"norm", "layernorm_f32", layernorm, func(a *driver.Args, x, scale, shift, y driver.DevicePtr, columns uint32) {
			a.Pointer(x).Pointer(scale).Pointer(shift).Pointer(y).Uint32(columns).Float32(epsilon)
		}},
		{"norm", "rmsnorm_f32", rmsnorm, func(a *driver.Args, x, scale, _, y driver.DevicePtr, columns uint32) {
			a.Pointer(x).Pointer(scale).Pointer(y).Uint32(columns).Float32(epsilon)
		}},
	} {
		t.Run(c.kernel, func(t *testing.T) {
			for _, columns := range []int{1, 31, 256, 1000, 1024} {
				const rows = 3
				x, scale, shift := random(rows*columns, 1), random(columns, 2), random(columns, 3)
				var first []float32
				for _, seed := range []uint64{0, 1, 2} {
					g := cudatest.New(t, seed, os.Getenv)
					width := len(c.want(x[:columns], scale, shift))
					y := g.Floats(t, make([]float32, rows*width))
					a := new(driver.Args)
					c.args(a, g.Floats(t, x), g.Floats(t, scale), g.Floats(t, shift), y, uint32(columns))
					did := run{g, rows}.launch(t, c.module, c.kernel, a)
					got := g.ReadFloats(t, y, rows*width)
					if first == nil {
						first = got
					}
					if !slices.Equal(got, first) {
						t.Errorf("%d columns: seed %d gives other bits", columns, seed)
					}
					for r := range rows {
						compare(t, fmt.Sprintf("%d columns, row %d", columns, r), got[r*width:][:width], c.want(x[r*columns:][:columns], scale, shift))
					}
					if columns%8 == 0 && did.Sectors != did.FewestSectors || did.Conflicts != 0 {
						t.Errorf("%d columns: %d sectors, at best %d, %d bank conflicts", columns, did.Sectors, did.FewestSectors, did.Conflicts)
					}
				}
			}
		})
	}
}

func plain(a *driver.Args, x, _, _, y driver.DevicePtr, columns uint32) {
	a.Pointer(x).Pointer(y).Uint32(columns)
}

func compare(t *testing.T, where string, got []float32, want []float64) {
	t.Helper()
	var scale float64
	for _, v := range want {
		scale = max(scale, math.Abs(v))
	}
	for i, v := range got {
		if e := math.Abs(float64(v) - want[i]); e > 4e-6*max(scale, 1) || v != v {
			t.Fatalf("%s, element %d: %g, want %g", where, i, v, want[i])
		}
	}
}

// TestColumns sums columns in parts of rows. A result has the bits of eight sums of every
// eighth row, added in order.
func TestColumns(t *testing.T) {
	const outer, rows, columns, part = 2, 50, 37, 30
	x := random(outer*rows*columns, 4)
	want := make([]float32, outer*2*columns)
	for at := range want {
		o, p, i := at/columns/2, at/columns%2, at%columns
		var sums [8]float32
		for k := p * part; k < min(rows, (p+1)*part); k++ {
			sums[(k-p*part)%8] += x[(o*rows+k)*columns+i]
		}
		for _, v := range sums[1:] {
			sums[0] += v
		}
		want[at] = sums[0] * 0.5
	}
	for _, seed := range []uint64{0, 1, 2} {
		g := cudatest.New(t, seed, os.Getenv)
		y := g.Floats(t, make([]float32, len(want)))
		did := grid(t, g, "reduce", "sum_columns_f32", (columns+31)/32, 2, outer,
			new(driver.Args).Pointer(g.Floats(t, x)).Pointer(y).Uint32(rows).Uint32(columns).Uint32(part).Float32(0.5))
		if got := g.ReadFloats(t, y, len(want)); !slices.Equal(got, want) {
			t.Errorf("seed %d: %g, want %g", seed, got, want)
		}
		if did.Conflicts != 0 {
			t.Errorf("%d bank conflicts", did.Conflicts)
		}
	}
}

// TestKernel checks that the text of one kernel has that one alone.
func TestKernel(t *testing.T) {
	for module, names := range Modules {
		for _, name := range names {
			text, err := Kernel(module, name)
			if err != nil || strings.Count(text, ".entry ") != 1 || !strings.HasPrefix(text, ".version") {
				t.Errorf("%s of %s: %v\n%s", name, module, err, text)
			}
		}
	}
	if _, err := Kernel("gemm", "gemm"); err == nil {
		t.Error("module gemm has a kernel gemm")
	}
}

// TestSpecial checks infinities and NaN.
func TestSpecial(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	r := run{cudatest.New(t, 0, os.Getenv), 4}
	g := r.gpu
	x := g.Floats(t, []float32{1, nan, 3, -inf, -inf, 0, -inf, -inf, 5, 2, 5, 4, 1, 2, inf, inf})
	y := g.Floats(t, make([]float32, 16))
	r.launch(t, "softmax", "softmax_f32", new(driver.Args).Pointer(x).Pointer(y).Uint32(4))
	got := g.ReadFloats(t, y, 16)
	if got[0] == got[0] || got[4] != 0 || got[5] != 1 || got[10] != got[8] || got[12] == got[12] {
		t.Errorf("softmax: %g", got)
	}
	r.launch(t, "reduce", "max_f32", new(driver.Args).Pointer(x).Pointer(y).Uint32(4).Uint32(4))
	if got := g.ReadFloats(t, y, 4); got[0] == got[0] || !slices.Equal(got[1:], []float32{0, 5, inf}) {
		t.Errorf("max: %g", got)
	}
	r.launch(t, "reduce", "argmax_f32", new(driver.Args).Pointer(x).Pointer(y).Uint32(4))
	if got := g.ReadWords(t, y, 4); !slices.Equal(got, []uint32{1, 1, 0, 2}) {
		t.Errorf("argmax: %d, want 1 1 0 2", got)
	}
}

func TestArgmax(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2} {
		r := run{cudatest.New(t, seed, os.Getenv), 5}
		const columns = 700
		x := random(5*columns, 9)
		y := r.gpu.Words(t, make([]uint32, 5))
		r.launch(t, "reduce", "argmax_f32", new(driver.Args).Pointer(r.gpu.Floats(t, x)).Pointer(y).Uint32(columns))
		for i, at := range r.gpu.ReadWords(t, y, 5) {
			row := x[i*columns:][:columns]
			if want := slices.Index(row, slices.Max(row)); int(at) != want {
				t.Errorf("row %d: %d, want %d", i, at, want)
			}
		}
	}
}

func TestGather(t *testing.T) {
	const columns, none = 300, math.MaxUint32
	x := make([]uint32, 4*columns)
	for i := range x {
		x[i] = uint32(i)
	}
	for _, c := range []struct {
		index  []uint32
		failed uint32
	}{{[]uint32{3, 0, 0, 2}, none}, {[]uint32{1, 4, none, 1}, 1}} {
		r := run{cudatest.New(t, 2, os.Getenv), 4}
		g := r.gpu
		y, failed := g.Words(t, make([]uint32, len(x))), g.Words(t, []uint32{none})
		r.launch(t, "move", "gather_b32", new(driver.Args).Pointer(g.Words(t, x)).Pointer(g.Words(t, c.index)).Pointer(y).
			Uint32(4).Uint32(columns).Pointer(failed))
		if v := g.ReadWords(t, failed, 1)[0]; v != c.failed {
			t.Errorf("%d: first failure is %d, want %d", c.index, v, c.failed)
		}
		for i, v := range g.ReadWords(t, y, len(x)) {
			want := uint32(0)
			if from := c.index[i/columns]; from < 4 {
				want = from*columns + uint32(i%columns)
			}
			if v != want {
				t.Fatalf("%d: element %d is %d, want %d", c.index, i, v, want)
			}
		}
	}
}
