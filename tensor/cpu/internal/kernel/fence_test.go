package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// each runs f for every level of this machine, or for the best of them under the race
// detector, with a seeded source that it prints on failure.
func each(t *testing.T, f func(t *testing.T, k *Table[float32], r *rand.Rand)) {
	levels := Levels()
	if testsize.Raced {
		levels = levels[len(levels)-1:]
	}
	for _, l := range levels {
		t.Run(l.String(), func(t *testing.T) {
			k, err := Select(l)
			if err != nil {
				t.Fatal(err)
			}
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			f(t, k, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// guard is the value around every slice that a test passes to a kernel: a NaN, so that
// reading it shows as well.
const guard = 0x7fc0dead

// fenced is a slice between guard values.
type fenced struct {
	all []float32
	v   []float32
	at  int
}

// newFenced returns n values of f between guards. Every off moves the slice by that many
// elements within its allocation, so that all alignments occur.
func newFenced(n, off int, f func() float32) fenced {
	const fence = 40
	x := fenced{all: make([]float32, fence+off+n+fence), at: fence + off}
	for i := range x.all {
		x.all[i] = math.Float32frombits(guard)
	}
	x.v = x.all[x.at : x.at+n : x.at+n]
	for i := range x.v {
		x.v[i] = f()
	}
	return x
}

// intact fails the test if a guard was overwritten.
func (x fenced) intact(t *testing.T, what string) {
	t.Helper()
	for i, v := range x.all {
		if (i < x.at || i >= x.at+len(x.v)) && math.Float32bits(v) != guard {
			t.Fatalf("%s: wrote %v at index %d of a slice of %d", what, v, i-x.at, len(x.v))
		}
	}
}

// identical reports whether two numbers have the same bits, or are both NaN.
func identical(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}
