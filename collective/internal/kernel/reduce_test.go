package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/isa"
)

// kernels returns the kernels of a level that this machine can run.
func kernels(l isa.Level) Set { return Set{l, l == AVX512 && isa.BrainFloat()} }

// each runs f for every level of this machine, with a seeded source that it prints on
// failure. On a machine with AVX512_BF16 it also runs without that.
func each(t *testing.T, f func(t *testing.T, s Set, r *rand.Rand)) {
	sets := map[string]Set{}
	for l := Go; l <= Best().Level(); l++ {
		s := kernels(l)
		sets[l.String()] = s
		if s.brain {
			sets[l.String()+" without bf16"] = Set{level: l}
		}
	}
	for name, s := range sets {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			f(t, s, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// repeats reports whether s converts c by the same kernel as another set of its level.
func repeats(s Set, c conversion) bool {
	return s.level == AVX512 && s != Best() && c != conversion{element.BF16, element.BF16}
}

// combos calls f for every operation and type that go together, and every conversion of
// the type.
func combos(f func(op element.Reduction, c conversion)) {
	for _, op := range element.Reductions() {
		for _, dt := range element.Numeric() {
			if Supported(op, dt) != nil {
				continue
			}
			f(op, conversion{dt, dt})
			if dt.IsHalf() {
				f(op, conversion{dt, element.F32})
				f(op, conversion{element.F32, dt})
			}
		}
	}
}

func (c conversion) String() string { return fmt.Sprintf("%v to %v", c.from, c.to) }

// run calls the method that does the conversion.
func (c conversion) run(s Set, op element.Reduction, scale float64, dsts, srcs [][]byte) {
	switch {
	case c.from == c.to:
		s.Reduce(op, c.from, scale, dsts, srcs)
	case c.to == element.F32:
		s.ReduceWiden(op, c.from, scale, dsts, srcs)
	default:
		s.ReduceNarrow(op, c.to, scale, dsts, srcs)
	}
}

// fenced is n bytes, at some alignment, between others that must not change.
type fenced struct {
	all  []byte
	v    []byte
	from int
}

const fence = 0xa5

func newFenced(r *rand.Rand, n int) fenced {
	from := 64 + r.IntN(64)
	f := fenced{all: make([]byte, from+n+64+r.IntN(64)), from: from}
	for i := range f.all {
		f.all[i] = fence
	}
	f.v = f.all[from : from+n : from+n]
	return f
}

func (f fenced) intact(t *testing.T, what string) {
	t.Helper()
	for i, b := range f.all {
		if (i < f.from || i >= f.from+len(f.v)) && b != fence {
			t.Fatalf("%s: wrote byte %d of %d", what, i-f.from, len(f.v))
		}
	}
}

// special numbers of f32; other types take their conversions.
var special = []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat32, -math.MaxFloat32,
	math.SmallestNonzeroFloat32, 65504, 65520, 1e-7, 5.9e-8, -6.1e-5}

// fill writes random elements, some of them special.
func fill(r *rand.Rand, dt element.DType, b []byte) {
	size := dt.Size()
	for i := 0; i+size <= len(b); i += size {
		f := r.NormFloat64()
		switch r.IntN(8) {
		case 0:
			f = special[r.IntN(len(special))]
		case 1:
			f *= math.Pow(2, float64(r.IntN(80)-40))
		}
		switch dt {
		case element.F64:
			binary.LittleEndian.PutUint64(b[i:], math.Float64bits(f))
		case element.F32:
			binary.LittleEndian.PutUint32(b[i:], math.Float32bits(float32(f)))
		case element.F16:
			binary.LittleEndian.PutUint16(b[i:], floatToHalf(float32(f)))
		case element.BF16:
			binary.LittleEndian.PutUint16(b[i:], floatToBrain(float32(f)))
		default:
			for j := range size {
				b[i+j] = byte(r.Uint32())
			}
		}
	}
}

// reference computes element i of the fold, one at a time.
func reference(op element.Reduction, c conversion, scale float64, srcs [][]byte, i int) uint64 {
	var x uint64
	size := c.from.Size()
	for k, s := range srcs {
		y := word(s[i*size:], size)
		switch {
		case k == 0:
			x = widened(c.from, y)
		case !c.from.IsFloat():
			x = integers(op, c.from, x, y)
		case c.from == element.F64:
			x = math.Float64bits(floats(op, math.Float64frombits(x), math.Float64frombits(y)))
		default:
			a, b := math.Float32frombits(uint32(x)), math.Float32frombits(uint32(widened(c.from, y)))
			// A sum or product of two float32 in float64 and rounded is the float32
			// operation (Figueroa 1995).
			x = uint64(math.Float32bits(float32(floats(op, float64(a), float64(b)))))
		}
	}
	switch {
	case !c.from.IsFloat():
		return x
	case c.from == element.F64:
		return math.Float64bits(math.Float64frombits(x) * scale)
	}
	f := float32(float64(math.Float32frombits(uint32(x))) * float64(float32(scale)))
	switch c.to {
	case element.F16:
		return uint64(floatToHalf(f))
	case element.BF16:
		return uint64(floatToBrain(f))
	}
	return uint64(math.Float32bits(f))
}

func word(b []byte, size int) uint64 {
	var w [8]byte
	copy(w[:], b[:size])
	return binary.LittleEndian.Uint64(w[:])
}

func widened(dt element.DType, x uint64) uint64 {
	switch dt {
	case element.F16:
		return uint64(math.Float32bits(halfToFloat(uint16(x))))
	case element.BF16:
		return uint64(math.Float32bits(brainToFloat(uint16(x))))
	}
	return x
}

func floats(op element.Reduction, a, b float64) float64 {
	switch op {
	case element.Sum:
		return a + b
	case element.Prod:
		return a * b
	case element.Min:
		return min(a, b)
	}
	return max(a, b)
}

func integers(op element.Reduction, dt element.DType, a, b uint64) uint64 {
	bits := 64 - 8*dt.Size()
	signed := func(x uint64) int64 { return int64(x<<bits) >> bits }
	if dt == element.U8 {
		signed = func(x uint64) int64 { return int64(x) }
	}
	switch op {
	case element.Sum:
		a += b
	case element.Prod:
		a *= b
	case element.Min:
		a = uint64(min(signed(a), signed(b)))
	case element.Max:
		a = uint64(max(signed(a), signed(b)))
	case element.And:
		a &= b
	case element.Or:
		a |= b
	case element.Xor:
		a ^= b
	}
	return a << bits >> bits
}

// same says whether two elements have the same bits, or are both NaN.
func same(dt element.DType, a, b uint64) bool {
	nan := func(x uint64) bool {
		switch dt {
		case element.F64:
			return math.IsNaN(math.Float64frombits(x))
		case element.F32:
			return x&0x7fffffff > 0x7f800000
		case element.F16:
			return x&0x7fff > 0x7c00
		case element.BF16:
			return x&0x7fff > 0x7f80
		}
		return false
	}
	return a == b || nan(a) && nan(b)
}

// trial folds n random elements of sources into destinations, the first inPlace of which
// are sources, and compares.
func trial(t *testing.T, s Set, r *rand.Rand, op element.Reduction, c conversion, n, sources, dests, inPlace int, scale float64) {
	t.Helper()
	what := fmt.Sprintf("%v %v, %d elements, %d sources, %d destinations, %d in place, scale %v", op, c, n, sources, dests, inPlace, scale)
	var all []fenced
	var srcs, dsts [][]byte
	for range sources {
		f := newFenced(r, n*c.from.Size())
		fill(r, c.from, f.v)
		all, srcs = append(all, f), append(srcs, f.v)
	}
	want := make([]uint64, n)
	for i := range want {
		want[i] = reference(op, c, scale, srcs, i)
	}
	for i := range dests {
		if i < inPlace {
			dsts = append(dsts, srcs[(i+r.IntN(sources))%sources])
			continue
		}
		f := newFenced(r, n*c.to.Size())
		all, dsts = append(all, f), append(dsts, f.v)
	}
	c.run(s, op, scale, dsts, srcs)
	for k, d := range dsts {
		size := c.to.Size()
		for i, w := range want {
			if got := word(d[i*size:], size); !same(c.to, got, w) {
				t.Fatalf("%s: element %d of destination %d is %#x, want %#x", what, i, k, got, w)
			}
		}
	}
	for _, f := range all {
		f.intact(t, what)
	}
}

func TestReduce(t *testing.T) {
	each(t, func(t *testing.T, s Set, r *rand.Rand) {
		combos(func(op element.Reduction, c conversion) {
			if repeats(s, c) {
				return
			}
			scale := func() float64 {
				if !c.from.IsFloat() || r.IntN(2) == 0 {
					return 1
				}
				return []float64{0.5, 1.0 / 3, 0.25, 7}[r.IntN(4)]
			}
			place := func(dests int) int {
				if c.from != c.to {
					return 0
				}
				return r.IntN(dests + 1)
			}
			for n := range 201 {
				dests := 1 + r.IntN(4)
				trial(t, s, r, op, c, n, 1+r.IntN(5), dests, place(dests), scale())
			}
			for sources := 1; sources <= 9; sources++ {
				dests := 1 + sources%4
				trial(t, s, r, op, c, 300, sources, dests, place(dests), scale())
			}
		})
	})
}

// TestReduceLong crosses the bound of one call into assembly.
func TestReduceLong(t *testing.T) {
	each(t, func(t *testing.T, s Set, r *rand.Rand) {
		for _, c := range []conversion{{element.F32, element.F32}, {element.BF16, element.BF16}, {element.F16, element.F32}} {
			trial(t, s, r, element.Sum, c, touchMax/8+1, 2, 2, 0, 1)
		}
		trial(t, s, r, element.Xor, conversion{element.I32, element.I32}, touchMax/8+1, 2, 1, 1, 1)
	})
}

// TestHalves gives every value of 16 bits to every conversion, alone and beside a random
// one. Operations other than the sum get random values.
func TestHalves(t *testing.T) {
	each(t, func(t *testing.T, s Set, r *rand.Rand) {
		combos(func(op element.Reduction, c conversion) {
			if !c.from.IsHalf() || repeats(s, c) {
				return
			}
			n, alone := 1<<16, 1
			if op != element.Sum {
				n, alone = 1<<13, 2
			}
			srcs := [][]byte{make([]byte, 2*n), make([]byte, 2*n)}
			for i := range n {
				x := i
				if op != element.Sum {
					x = int(r.Uint32())
				}
				binary.LittleEndian.PutUint16(srcs[0][2*i:], uint16(x))
				binary.LittleEndian.PutUint16(srcs[1][2*i:], uint16(r.Uint32()))
			}
			for k := alone; k <= 2; k++ {
				dst := make([]byte, c.to.Size()*n)
				c.run(s, op, 1, [][]byte{dst}, srcs[:k])
				for i := range n {
					got, want := word(dst[i*c.to.Size():], c.to.Size()), reference(op, c, 1, srcs[:k], i)
					if !same(c.to, got, want) {
						t.Fatalf("%v %v of %#x and %#x: %#x, want %#x", op, c, word(srcs[0][2*i:], 2), word(srcs[1][2*i:], 2), got, want)
					}
				}
			}
		})
	})
}

func TestSupported(t *testing.T) {
	for _, op := range element.Reductions() {
		for _, dt := range element.Numeric() {
			err := Supported(op, dt)
			if bad := op.Bitwise() && dt.IsFloat(); bad != errors.Is(err, ErrUnsupported) || bad != (err != nil) {
				t.Errorf("%v of %v: %v", op, dt, err)
			}
		}
	}
	for _, bad := range []struct {
		op element.Reduction
		dt element.DType
	}{{element.Reduction(99), element.F32}, {element.None, element.F32}, {element.Sum, element.DType(99)}, {element.Sum, element.Invalid}} {
		if err := Supported(bad.op, bad.dt); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v of %v: %v", bad.op, bad.dt, err)
		}
	}
}

func TestPanics(t *testing.T) {
	b := func(n int) [][]byte { return [][]byte{make([]byte, n)} }
	for name, f := range map[string]func(){
		"no source":           func() { Reduce(element.Sum, element.F32, 1, b(4), nil) },
		"half an element":     func() { Reduce(element.Sum, element.F32, 1, b(6), b(6)) },
		"short destination":   func() { Reduce(element.Sum, element.F32, 1, b(4), b(8)) },
		"long destination":    func() { Reduce(element.Sum, element.F32, 1, b(8), b(4)) },
		"unequal sources":     func() { Reduce(element.Sum, element.U8, 1, b(4), append(b(4), make([]byte, 5))) },
		"xor of floats":       func() { Reduce(element.Xor, element.F32, 1, b(4), b(4)) },
		"scaled integers":     func() { Reduce(element.Sum, element.I32, 0.5, b(4), b(4)) },
		"unknown type":        func() { Reduce(element.Sum, element.DType(99), 1, b(4), b(4)) },
		"widening of f32":     func() { Widen(make([]byte, 4), make([]byte, 4), element.F32) },
		"narrowing to i32":    func() { Narrow(make([]byte, 4), make([]byte, 4), element.I32, 1) },
		"widening, same size": func() { Widen(make([]byte, 4), make([]byte, 4), element.F16) },
		"copy":                func() { Copy(make([]byte, 4), make([]byte, 5)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
