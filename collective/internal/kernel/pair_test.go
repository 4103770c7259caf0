package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestPair wants Pair to give the bits of Reduce, and to take the sums of a few elements.
func TestPair(t *testing.T) {
	each(t, func(t *testing.T, s Set, r *rand.Rand) {
		done := 0
		combos(func(op element.Reduction, c conversion) {
			if c.from != c.to {
				return
			}
			for n := 0; n <= pairMax+8; n += 1 << log(c.from) {
				for _, scale := range []float64{1, 0.5} {
					if scale != 1 && !c.from.IsFloat() {
						continue
					}
					x, y, want := make([]byte, n), make([]byte, n), make([]byte, n)
					fill(r, c.from, x)
					fill(r, c.from, y)
					s.Reduce(op, c.from, scale, [][]byte{want}, [][]byte{x, y})
					got := bytes.Clone(x) // in place
					if !s.Pair(op, c.from, scale, got, got, y) {
						if !bytes.Equal(got, x) {
							t.Fatalf("%v of %v: said no and wrote", op, c)
						}
						continue
					}
					done++
					if n > pairMax || op != element.Sum || scale != 1 {
						t.Errorf("%v of %v, %d bytes, scale %v: not a short sum", op, c, n, scale)
					}
					for i := range n >> log(c.from) {
						size := 1 << log(c.from)
						if a, b := word(got[i*size:], size), word(want[i*size:], size); !same(c.to, a, b) {
							t.Errorf("%v of %v, %d bytes: element %d is %#x, want %#x", op, c, n, i, a, b)
						}
					}
				}
			}
		})
		if done < 5*2 {
			t.Errorf("%d sums were done", done)
		}
	})
	if (Set{}).Pair(element.Sum, element.F32, 1, make([]byte, 4), make([]byte, 4), make([]byte, 8)) {
		t.Error("unequal lengths were added")
	}
}
