package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// chainNumbers are n numbers, special ones among them.
func chainNumbers(r *rand.Rand, n int) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-42, math.MaxFloat32}
	x := make([]float32, n)
	for i := range x {
		if x[i] = float32(r.NormFloat64()); r.IntN(5) == 0 {
			x[i] = special[r.IntN(len(special))]
		}
	}
	return x
}

// TestChain runs every operation of a chain on every pair of numbers, and wants the bits
// of the kernel of that operation.
func TestChain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, l := range Levels() {
		k, err := Select(l)
		if err != nil {
			t.Fatal(err)
		}
		swap := func(f Binary[float32]) Binary[float32] { return func(dst, a, b []float32) { f(dst, b, a) } }
		binary := map[int]Binary[float32]{ChainAdd: k.Add, ChainSub: k.Sub, ChainRSub: swap(k.Sub), ChainMul: k.Mul, ChainDiv: k.Div,
			ChainRDiv: swap(k.Div), ChainMax: k.Max, ChainRMax: swap(k.Max), ChainMin: k.Min, ChainRMin: swap(k.Min),
			ChainReLUGrad: k.ReLUGrad, ChainRReLUGrad: swap(k.ReLUGrad), ChainTanhGrad: k.TanhGrad, ChainRTanhGrad: swap(k.TanhGrad),
			ChainSigmoidGrad: k.SigmoidGrad, ChainRSigmoidGrad: swap(k.SigmoidGrad)}
		unary := map[int]Unary[float32]{ChainNeg: k.Neg, ChainAbs: k.Abs, ChainSign: k.Sign, ChainSquare: k.Square, ChainSqrt: k.Sqrt,
			ChainRsqrt: k.Rsqrt, ChainRecip: k.Recip, ChainFloor: k.Floor, ChainCeil: k.Ceil, ChainReLU: k.ReLU}
		for _, n := range []int{0, 1, 63, 256, 1024, 1000} {
			a, b := chainNumbers(r, n+1)[1:], chainNumbers(r, n+1)[1:]
			for code := range chainCodes {
				if unary[code] == nil && code != ChainLoad && code != ChainStore && (code < ChainLoadS || code > ChainLoadS && code < ChainAdd || (code-ChainAdd)%4 > 1) {
					continue // of 16 bits
				}
				s := chainNumbers(r, 1)
				want, other := make([]float32, n), b
				switch {
				case unary[code] != nil:
					unary[code](want, a)
				case binary[code] != nil:
					binary[code](want, a, b)
				case code == ChainLoad:
					copy(want, b)
				case code == ChainStore:
					copy(want, a)
				default: // a scalar
					other = make([]float32, n)
					k.Fill(other, s[0])
					if code == ChainLoadS {
						copy(want, other)
					} else {
						binary[code-1](want, a, other)
					}
					other = s
				}
				got := chainNumbers(r, n+2)
				before, after := got[0], got[n+1]
				ops := []ChainOp{{ChainLoad, first(a)}, {code, first(other)}, {ChainStore, first(got[1:])}}
				if code == ChainStore {
					ops[1].P = first(got[1:])
				}
				done := k.Chain(n, ops)
				if done > n || k.ChainBlock == 0 && done != 0 || k.ChainBlock > 0 && n >= 256 && done < n-255 {
					t.Fatalf("%v: %d of %d numbers are done", l, done, n)
				}
				for i := range done {
					if math.Float32bits(got[i+1]) != math.Float32bits(want[i]) && (want[i] == want[i] || got[i+1] == got[i+1]) {
						t.Fatalf("%v: operation %d of %g and %g is %g, expected %g", l, code, a[i], other[i%len(other)], got[i+1], want[i])
					}
				}
				if math.Float32bits(got[0]) != math.Float32bits(before) || math.Float32bits(got[n+1]) != math.Float32bits(after) {
					t.Fatalf("%v: operation %d writes beyond %d numbers", l, code, n)
				}
			}
		}
	}
}

// first returns the address of x[0], or nil if x is empty.
func first(x []float32) *float32 {
	if len(x) == 0 {
		return nil
	}
	return &x[0]
}

// TestChainHalves wants the operations that read or write numbers of 16 bits to have the
// bits of the conversions and the operations on float32, for all numbers of 16 bits.
func TestChainHalves(t *testing.T) {
	const n = 1 << 16
	halves, x := make([]uint16, n), chainNumbers(rand.New(rand.NewPCG(3, 4)), n)
	for i := range halves {
		halves[i] = uint16(i)
	}
	at := func(x []uint16) *float32 { return (*float32)(unsafe.Pointer(&x[0])) }
	for _, l := range Levels()[1:] {
		k, err := Select(l)
		if err != nil {
			t.Fatal(err)
		}
		if k.ChainBlock == 0 {
			continue
		}
		for form, c := range map[int]struct {
			widen  func(dst []float32, x []uint16)
			narrow func(dst []uint16, x []float32)
		}{ChainLoadF16: {k.WidenF16, k.NarrowF16}, ChainLoadBF16: {k.WidenBF16, k.NarrowBF16}} {
			wide, got, want := make([]float32, n), make([]float32, n), make([]float32, n)
			narrow, right := make([]uint16, n), make([]uint16, n)
			c.widen(wide, halves)
			same := func(code int) {
				t.Helper()
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (want[i] == want[i] || got[i] == got[i]) {
						t.Fatalf("%v: operation %d of %g and %#04x is %g, expected %g", l, code, x[i], i, got[i], want[i])
					}
				}
			}
			for code := ChainLoad; code < chainCodes; code += 4 {
				if code == ChainStore {
					code = ChainAdd
				}
				k.Chain(n, []ChainOp{{ChainLoad, &x[0]}, {code + form, at(halves)}, {ChainStore, &got[0]}})
				k.Chain(n, []ChainOp{{ChainLoad, &x[0]}, {code, &wide[0]}, {ChainStore, &want[0]}})
				same(code + form)
			}
			store, round := ChainStoreF16, ChainRoundF16
			if form == ChainLoadBF16 {
				store, round = ChainStoreBF16, ChainRoundBF16
			}
			k.Chain(n, []ChainOp{{ChainLoad, &x[0]}, {store, at(narrow)}, {round, nil}, {ChainStore, &got[0]}})
			c.narrow(right, x)
			c.widen(want, right)
			same(round)
			for i, b := range right {
				if narrow[i] != b {
					t.Fatalf("%v: %g is stored as %#04x, expected %#04x", l, x[i], narrow[i], b)
				}
			}
		}
	}
}

// TestChainOfMany wants a chain to keep its accumulator, and to read a value that it
// stored.
func TestChainOfMany(t *testing.T) {
	k := Best()
	x, y, z := make([]float32, 512), make([]float32, 512), make([]float32, 512)
	for i := range x {
		x[i], y[i] = float32(i), float32(i%7)
	}
	three := []float32{3}
	// z = x*3; z = (z - y)*z
	done := k.Chain(512, []ChainOp{{ChainLoad, &x[0]}, {ChainMulS, &three[0]}, {ChainStore, &z[0]}, {ChainSub, &y[0]}, {ChainMul, &z[0]}, {ChainStore, &z[0]}})
	for i := range done {
		if want := (3*x[i] - y[i]) * (3 * x[i]); z[i] != want {
			t.Fatalf("element %d is %g, expected %g", i, z[i], want)
		}
	}
	if done == 0 && k.ChainBlock > 0 {
		t.Error("nothing was done")
	}
}
