package kernel

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestAddWords wants words of elements to be added as Reduce adds them, on every level,
// and other types to be excluded.
func TestAddWords(t *testing.T) {
	each(t, func(t *testing.T, s Set, r *rand.Rand) {
		types := 0
		for _, dt := range element.Numeric() {
			if !AddsWords(dt) {
				if got := s.AddWords(dt, 1, 1); got != 0 {
					t.Errorf("%v: not added, and the sum is %#x", dt, got)
				}
				continue
			}
			types++
			x, y, want := make([]byte, 8), make([]byte, 8), make([]byte, 8)
			for range 10_000 {
				fill(r, dt, x)
				fill(r, dt, y)
				s.Reduce(element.Sum, dt, 1, [][]byte{want}, [][]byte{x, y})
				got := s.AddWords(dt, binary.LittleEndian.Uint64(x), binary.LittleEndian.Uint64(y))
				for at := 0; at < 8; at += dt.Size() {
					a, b := got>>(8*at)&(1<<(8*dt.Size())-1), word(want[at:], dt.Size())
					if dt.Size() == 8 {
						a = got
					}
					if !same(dt, a, b) {
						t.Fatalf("%v: %x + %x: byte %d: %#x, want %#x", dt, x, y, at, a, b)
					}
				}
			}
			// The bytes beyond the elements of a shorter buffer are 0 before and after.
			if got := s.AddWords(dt, 0, 0); got != 0 {
				t.Errorf("%v: 0 + 0 = %#x", dt, got)
			}
		}
		if types != 6 {
			t.Errorf("%d types are added, expected 6", types)
		}
	})
}
