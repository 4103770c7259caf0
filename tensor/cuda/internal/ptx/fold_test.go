package ptx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// foldOperand returns n elements of d that begin at element off of a tensor's memory.
func foldOperand(d tensor.DType, n, off int) compile.Operand {
	return compile.Operand{Scalar: -1, DType: d, Shape: tensor.Shape{n}, Strides: []int{1}, Off: off, Dense: true}
}

// values returns n elements of d: any bits, small numbers among them, zeros of both signs
// and infinities, and no NaN, whose bits are not promised.
func values(rng *rand.Rand, d tensor.DType, n int) []byte {
	b := make([]byte, n*d.Size())
	for i := range n {
		x := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), 0.1, rng.NormFloat64(), rng.NormFloat64() * 1e30}[rng.IntN(8)]
		at := b[i*d.Size():]
		bits := rng.Uint64()
		switch d {
		case tensor.F64:
			binary.LittleEndian.PutUint64(at, math.Float64bits(x))
		case tensor.F32:
			binary.LittleEndian.PutUint32(at, math.Float32bits(float32(x)))
		case tensor.F16:
			binary.LittleEndian.PutUint16(at, uint16(element.ToFloat16(float32(x))))
		case tensor.BF16:
			binary.LittleEndian.PutUint16(at, uint16(element.ToBFloat16(float32(x))))
		default:
			copy(at[:d.Size()], binary.LittleEndian.AppendUint64(nil, bits))
		}
	}
	return b
}

// TestFold compares the kernels of folds with the folds of the host: all dtypes and
// reductions of plans, 2 to 4 sources, with and without a factor, vectors and single
// elements. NVIDIA's assembler takes their texts.
func TestFold(t *testing.T) {
	g := cudatest.New(t, 1, os.Getenv)
	const seed = 17
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var texts []string
	for _, d := range element.Numeric() {
		for _, op := range []element.Reduction{element.Sum, element.Prod, element.Max, element.Min} {
			for srcs := 2; srcs <= 4; srcs++ {
				scale := 1.0
				if d.IsFloat() && op == element.Sum && srcs != 3 {
					scale = 1 / float64(srcs+1)
				}
				for _, n := range []int{512, 37} {
					texts = append(texts, foldCase(t, g, rng, d, op, scale, srcs, n))
				}
			}
		}
	}
	assemble(t, texts)
}

// foldCase folds random sources on the device and on the host, and returns the kernel's
// text.
func foldCase(t *testing.T, g *cudatest.GPU, rng *rand.Rand, d tensor.DType, op element.Reduction, scale float64, srcs, n int) string {
	t.Helper()
	name := fmt.Sprintf("%v of %d times %d %v, times %g", op, srcs, n, d, scale)
	var ins []compile.Operand
	var hosts [][]byte
	var a driver.Args
	for range srcs {
		hosts = append(hosts, values(rng, d, n))
		ins = append(ins, foldOperand(d, n, 0))
		a.Pointer(g.Bytes(t, hosts[len(hosts)-1]))
	}
	k := Fold(op, scale, foldOperand(d, n, 0), ins...)
	if k == nil {
		t.Fatalf("%s has no kernel", name)
	}
	if want := map[bool]int{true: min(4, 16/d.Size()), false: 1}[n%4 == 0]; k.Vector != want {
		t.Errorf("%s: %d elements a thread, expected %d", name, k.Vector, want)
	}
	out := g.Bytes(t, make([]byte, n*d.Size()))
	a.Pointer(out)
	a.Uint32(uint32(n))
	g.Run(t, g.Function(t, k.Text, Name), driver.Launch{Grid: [3]uint32{uint32(k.Grid()), 1, 1}, Block: [3]uint32{Threads, 1, 1}}, &a)
	got, want := make([]byte, n*d.Size()), make([]byte, n*d.Size())
	if err := g.CopyDtoH(got, out); err != nil {
		t.Fatal(err)
	}
	if err := collective.Fold(op, d, scale, want, hosts...); err != nil {
		t.Fatal(err)
	}
	size := d.Size()
	for i := range n {
		x, y := got[i*size:][:size], want[i*size:][:size]
		if !bytes.Equal(x, y) && !(isNaN(d, x) && isNaN(d, y)) {
			t.Fatalf("%s: element %d is %x, on the host %x", name, i, x, y)
		}
	}
	return k.Text
}

// isNaN reports whether the element b of d is NaN.
func isNaN(d tensor.DType, b []byte) bool {
	switch d {
	case tensor.F64:
		return math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case tensor.F32:
		return math.IsNaN(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case tensor.F16:
		return math.IsNaN(float64(element.Float16(binary.LittleEndian.Uint16(b)).Float32()))
	case tensor.BF16:
		return math.IsNaN(float64(element.BFloat16(binary.LittleEndian.Uint16(b)).Float32()))
	}
	return false
}

// TestFoldRefuses checks what Fold has no kernel for.
func TestFoldRefuses(t *testing.T) {
	x, y := foldOperand(tensor.I32, 8, 0), foldOperand(tensor.F32, 8, 0)
	many := slices.Repeat([]compile.Operand{y}, MaxFold+1)
	for name, k := range map[string]*Kernel{
		"too many sources": Fold(element.Sum, 0.5, y, many...),
		"scaled integers":  Fold(element.Sum, 0.5, x, x, x),
		"a bitwise fold":   Fold(element.Xor, 1, x, x, x),
		"no elements":      Fold(element.Sum, 1, foldOperand(tensor.F32, 0, 0), foldOperand(tensor.F32, 0, 0)),
	} {
		if k != nil {
			t.Errorf("%s: a kernel", name)
		}
	}
	if Fold(element.Sum, 0.5, y, many[:MaxFold]...) == nil {
		t.Errorf("%d sources have no kernel", MaxFold)
	}
}
