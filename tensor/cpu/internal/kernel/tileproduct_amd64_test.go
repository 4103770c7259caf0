package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringside-go/ringside/collective/isa/isatest"
)

// tilesTable returns the products of the level AMX, and skips the test where the machine
// has no tiles, or the kernel doesn't let the process use them.
func tilesTable(t testing.TB) *BrainProducts {
	t.Helper()
	isatest.Need(t, AMX)
	k, err := Select(AMX)
	if err != nil {
		t.Fatal(err)
	}
	return k.Brain
}

// halvesIn returns a matrix in one of four layouts at the end of mem, whose next byte
// can't be read: by rows, by columns, every second number, and the same row for all.
func halvesIn(mem []uint16, r *rand.Rand, rows, cols, layout int, number func() uint16) Halves {
	h := Halves{RS: cols + r.IntN(4), CS: 1}
	switch layout {
	case 1:
		h.RS, h.CS = 1, rows+r.IntN(4)
	case 2:
		h.RS, h.CS = 2*cols+r.IntN(4), 2
	case 3:
		h.RS = 0
	}
	size := (rows-1)*h.RS + (cols-1)*h.CS + 1
	h.Data = mem[len(mem)-size:]
	for i := range h.Data {
		h.Data[i] = number()
	}
	return h
}

func (h Halves) at(i, j int) uint16 { return h.Data[i*h.RS+j*h.CS] }

// TestTiles multiplies matrices whose sums are exact in all layouts, in sizes at the
// edges of tiles, panels and blocks. Operands and results end where the next byte can't
// be touched.
func TestTiles(t *testing.T) {
	p := tilesTable(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	left, right, results := edgeOf[uint16](t), edgeOf[uint16](t), edgeOf[float32](t)
	var sizes [][3]int
	for _, m := range []int{1, 2, 15, 16, 17, 31, 32, 33, 63, 70} {
		for _, n := range []int{1, 3, 16, 17, 31, 32, 33, 50, 64} {
			sizes = append(sizes, [3]int{m, n, 1 + r.IntN(70)})
		}
	}
	for _, k := range []int{1, 2, 31, 32, 33, 63, 64, 65, 511, 513, 1000} {
		sizes = append(sizes, [3]int{1 + r.IntN(40), 1 + r.IntN(40), k})
	}
	for i, s := range sizes {
		for layouts := range 16 {
			m, n, k := s[0], s[1], s[2]
			number := func() uint16 { return brainNumber(r) }
			a, b := halvesIn(left, r, m, k, layouts/4, number), halvesIn(right, r, k, n, layouts%4, number)
			ldc := n + r.IntN(3)
			c := results[len(results)-(m-1)*ldc-n:]
			what := fmt.Sprintf("size %d, %v, layouts %d", i, s, layouts)
			checkTiles(t, p, what, m, n, k, a, b, c, ldc)
		}
	}
}

// checkTiles compares a product with the exact sums.
func checkTiles(t *testing.T, p *BrainProducts, what string, m, n, k int, a, b Halves, c []float32, ldc int) {
	t.Helper()
	for q := range c {
		c[q] = -1e30 // stays between the rows
	}
	scratch := make([]float32, p.TilesScratch(m, n, k))
	for q := range scratch {
		scratch[q] = float32(math.NaN())
	}
	faultless(t, what, func() { p.Tiles(m, n, k, a, b, c, ldc, scratch, nil) })
	for q, got := range c {
		want := -1e30
		if i, j := q/ldc, q%ldc; j < n {
			want = 0
			for l := range k {
				want += brainValue(a.at(i, l)) * brainValue(b.at(l, j))
			}
		}
		if got != float32(want) {
			t.Fatalf("%s: element %d,%d is %v, want %v", what, q/ldc, q%ldc, got, want)
		}
	}
}

// tileSum returns element (i, j) as the instruction adds it up: of each 32 numbers those
// at even and at odd places by themselves, then both, then the sum so far.
func tileSum(a, b Halves, i, j, k int) (sum float32) {
	for s := 0; s < k; s += stepDepth {
		var of [2]float32
		for l := s; l < min(k, s+stepDepth); l++ {
			// exact in float64 for numbers of similar size, and then rounded once
			of[l%2] = float32(float64(of[l%2]) + brainValue(a.at(i, l))*brainValue(b.at(l, j)))
		}
		sum += of[0] + of[1]
	}
	return sum
}

// TestTilesOrder wants the bits of the documented order of a sum, in whatever rectangle
// of a product it is computed.
func TestTilesOrder(t *testing.T) {
	p := tilesTable(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	number := func() uint16 {
		sign, exponent := r.Uint32()&1<<15, uint32(124+r.IntN(6))<<7
		return uint16(sign | exponent | r.Uint32()&127)
	}
	for _, s := range [][3]int{{40, 50, 7}, {33, 70, 64}, {tallRows + 40, 96, 600}, {20, 17, farSteps*stepDepth + 700}} {
		m, n, k := s[0], s[1], s[2]
		a := halvesIn(make([]uint16, 4*m*k+8*k), r, m, k, r.IntN(3), number)
		b := halvesIn(make([]uint16, 4*n*k+8*k), r, k, n, r.IntN(3), number)
		i0, j0 := r.IntN(m), r.IntN(n)
		for _, part := range [][4]int{{0, m, 0, n}, {i0, m, 0, n}, {0, m, j0, n}, {0, i0 + 1, j0, n}} {
			rows, cols := part[1]-part[0], part[3]-part[2]
			c, scratch := make([]float32, rows*cols), make([]float32, p.TilesScratch(rows, cols, k))
			x := Halves{a.Data[part[0]*a.RS:], a.RS, a.CS}
			y := Halves{b.Data[part[2]*b.CS:], b.RS, b.CS}
			p.Tiles(rows, cols, k, x, y, c, cols, scratch, nil)
			for q := 0; q < len(c); q += 1 + r.IntN(50) {
				i, j := q/cols, q%cols
				if want := tileSum(x, y, i, j, k); math.Float32bits(c[q]) != math.Float32bits(want) {
					t.Fatalf("%v, part %v: element %d,%d is %v, want %v", s, part, i, j, c[q], want)
				}
			}
		}
	}
}

// TestTilesSpecial multiplies numbers that are none, infinite, zero and subnormal.
func TestTilesSpecial(t *testing.T) {
	p := tilesTable(t)
	const one, negative, inf, nan, tiny, negativeZero, small = 0x3f80, 0xbf80, 0x7f80, 0x7fc0, 0x0001, 0x8000, 0x0080
	nans := float32(math.NaN())
	for _, c := range []struct {
		a, b []uint16
		want float32
	}{
		{[]uint16{one}, []uint16{nan}, nans},
		{[]uint16{0}, []uint16{inf}, nans},
		{[]uint16{inf}, []uint16{negative}, float32(math.Inf(-1))},
		{[]uint16{inf, inf}, []uint16{one, negative}, nans},
		{[]uint16{inf, one, one}, []uint16{one, one, one}, float32(math.Inf(1))},
		{[]uint16{negativeZero}, []uint16{one}, 0}, // the sum begins with 0
		{[]uint16{tiny}, []uint16{0x7f00}, 0},      // subnormal operands count as 0
		{[]uint16{small}, []uint16{0x3f00}, 0},     // so do subnormal sums
		{[]uint16{tiny}, []uint16{inf}, nans},
		{[]uint16{small}, []uint16{one}, 0x1p-126},
		{[]uint16{0x7f00, 0x7f00}, []uint16{0x4000, one}, float32(math.Inf(1))},
	} {
		for _, m := range []int{1, 40} { // one row, alone and below others
			k := len(c.a)
			a, out := make([]uint16, m*k), make([]float32, m*3)
			copy(a[(m-1)*k:], c.a)
			b := make([]uint16, 3*k)
			for l, v := range c.b {
				b[3*l+1] = v
			}
			p.Tiles(m, 3, k, Halves{a, k, 1}, Halves{b, 3, 1}, out, 3, make([]float32, p.TilesScratch(m, 3, k)), nil)
			got := out[(m-1)*3+1]
			if got != c.want && !(got != got && c.want != c.want) || math.Signbit(float64(got)) != math.Signbit(float64(c.want)) && got == got {
				t.Errorf("%#x times %#x, row %d: %v, want %v", c.a, c.b, m-1, got, c.want)
			}
		}
	}
	empty := []float32{1, 2}
	p.Tiles(1, 2, 0, Halves{}, Halves{}, empty, 2, make([]float32, p.TilesScratch(1, 2, 0)), nil)
	if empty[0] != 0 || empty[1] != 0 {
		t.Errorf("a sum of nothing is %v", empty)
	}
}

// TestTilesSignals multiplies while the thread gets signals without end, whose frames
// hold its tiles: the runtime's preemption and others come between any two instructions.
func TestTilesSignals(t *testing.T) {
	p := tilesTable(t)
	const m, n, k = 96, 64, 512
	r := rand.New(rand.NewPCG(7, 11))
	number := func() uint16 { return uint16(math.Float32bits(float32(r.NormFloat64())) >> 16) }
	a, b := halvesIn(make([]uint16, 2*m*k), r, m, k, 0, number), halvesIn(make([]uint16, 2*n*k), r, k, n, 0, number)
	multiply := func(c, scratch []float32) { p.Tiles(m, n, k, a, b, c, n, scratch, nil) }
	want, room := make([]float32, m*n), p.TilesScratch(m, n, k)
	multiply(want, make([]float32, room))

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var done atomic.Bool
	var sent atomic.Int64
	ended := make(chan error)
	pid, tid := syscall.Getpid(), syscall.Gettid()
	go func() {
		for !done.Load() {
			if _, _, errno := syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), uintptr(tid), uintptr(syscall.SIGURG)); errno != 0 {
				ended <- errno
				return
			}
			sent.Add(1)
		}
		ended <- nil
	}()
	got, scratch := make([]float32, m*n), make([]float32, room)
	for rounds := 0; rounds < 200 || sent.Load() < 30000; rounds++ {
		clear(got)
		multiply(got, scratch)
		if !slices.Equal(got, want) {
			t.Errorf("round %d has other bits", rounds)
			break
		}
	}
	done.Store(true)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// BenchmarkTiles times products by tiles and by pairs.
func BenchmarkTiles(b *testing.B) {
	p := tilesTable(b)
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][3]int{{256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {1024, 1024, 4096}} {
		m, n, k := s[0], s[1], s[2]
		x, y, c := make([]uint16, m*k), make([]uint16, n*k), make([]float32, m*n)
		for i := range x {
			x[i] = brainNumber(r)
		}
		scratch := make([]float32, p.TilesScratch(m, n, k))
		for order, name := range []string{"nn", "nt", "tn"} {
			l, right := Halves{x, k, 1}, Halves{y, n, 1}
			if order == 1 {
				right = Halves{y, 1, k}
			} else if order == 2 {
				l = Halves{x, 1, m}
			}
			b.Run(fmt.Sprintf("%dx%dx%d/%s", m, n, k, name), func(b *testing.B) {
				for b.Loop() {
					p.Tiles(m, n, k, l, right, c, n, scratch, nil)
				}
			})
		}
		if k%2 == 0 {
			left, right, pairs := make([]float32, m*k/2), make([]float32, n*k/2), k/2
			room := make([]float32, GemmScratch(m, n, pairs))
			b.Run(fmt.Sprintf("%dx%dx%d/pairs", m, n, k), func(b *testing.B) {
				for b.Loop() {
					p.Gemm(m, n, pairs, Matrix[float32]{left, pairs, 1}, Matrix[float32]{right, n, 1}, c, n, room, nil)
				}
			})
		}
	}
}
