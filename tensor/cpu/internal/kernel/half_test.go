package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestHalves wants every level to convert to the bits of package element: all 65536
// values and around every rounding, at any length and start. Nothing beside the
// destination may be written.
func TestHalves(t *testing.T) {
	const seed = 5
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	bits := make([]uint16, 1<<16)
	for i := range bits {
		bits[i] = uint16(i)
	}
	floats := make([]float32, 0, 1<<18)
	for _, b := range bits {
		for _, x := range []float32{element.Float16(b).Float32(), element.BFloat16(b).Float32()} {
			u := math.Float32bits(x)
			floats = append(floats, x, math.Float32frombits(u+0xfff), math.Float32frombits(u+0x1000), math.Float32frombits(u+0x7fff), math.Float32frombits(u+0x8000), math.Float32frombits(u+0x8001))
		}
		floats = append(floats, math.Float32frombits(r.Uint32()))
	}
	for _, level := range Levels() {
		k, err := Select(level)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 63, 100, 1000, len(bits)} {
			from := r.IntN(len(bits) - n + 1)
			testWiden(t, level, "f16", k.WidenF16, bits[from:from+n], func(b uint16) float32 { return element.Float16(b).Float32() })
			testWiden(t, level, "bf16", k.WidenBF16, bits[from:from+n], func(b uint16) float32 { return element.BFloat16(b).Float32() })
		}
		for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 63, 100, 1000, len(floats)} {
			from := r.IntN(len(floats) - n + 1)
			testNarrow(t, level, "f16", k.NarrowF16, floats[from:from+n], func(x float32) uint16 { return uint16(element.ToFloat16(x)) })
			testNarrow(t, level, "bf16", k.NarrowBF16, floats[from:from+n], func(x float32) uint16 { return uint16(element.ToBFloat16(x)) })
		}
	}
}

func testWiden(t *testing.T, level Level, name string, f func(dst []float32, x []uint16), x []uint16, want func(uint16) float32) {
	t.Helper()
	dst := make([]float32, len(x)+2)
	dst[0], dst[len(x)+1] = 7, 7
	f(dst[1:len(x)+1], x)
	for i, b := range x {
		if got := math.Float32bits(dst[i+1]); got != math.Float32bits(want(b)) {
			t.Fatalf("%v widens %s %#04x to %#08x, expected %#08x", level, name, b, got, math.Float32bits(want(b)))
		}
	}
	if dst[0] != 7 || dst[len(x)+1] != 7 {
		t.Fatalf("%v widens %d %s and writes beside them", level, len(x), name)
	}
}

func testNarrow(t *testing.T, level Level, name string, f func(dst []uint16, x []float32), x []float32, want func(float32) uint16) {
	t.Helper()
	dst := make([]uint16, len(x)+2)
	dst[0], dst[len(x)+1] = 7, 7
	f(dst[1:len(x)+1], x)
	for i, v := range x {
		if dst[i+1] != want(v) {
			t.Fatalf("%v rounds %v (%#08x) to %s %#04x, expected %#04x", level, v, math.Float32bits(v), name, dst[i+1], want(v))
		}
	}
	if dst[0] != 7 || dst[len(x)+1] != 7 {
		t.Fatalf("%v rounds to %d %s and writes beside them", level, len(x), name)
	}
}
