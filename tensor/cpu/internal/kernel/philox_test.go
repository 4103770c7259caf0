package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPhilox compares with the known answers that the authors publish with Random123
// (kat_vectors, philox4x32 with 10 rounds).
func TestPhilox(t *testing.T) {
	const f = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{f, f, f, f}, [2]uint32{f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox(c.counter, c.key); got != c.want {
			t.Errorf("Philox(%x, %x) = %x, expected %x", c.counter, c.key, got, c.want)
		}
	}
}

// TestPhiloxLevels wants the same words of every level for all numbers of blocks, also
// where the counter carries, and nothing beyond them.
func TestPhiloxLevels(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for blocks := range 70 {
			for _, first := range []uint64{0, r.Uint64(), math.MaxUint32 - uint64(blocks/2), math.MaxUint64 - 3} {
				number, key := r.Uint64(), [2]uint32{r.Uint32(), r.Uint32()}
				got := slices.Repeat([]uint32{7}, 4*blocks+5)
				want := slices.Clone(got)
				k.Philox(got[1:1+4*blocks], first, number, key)
				philoxGo(want[1:1+4*blocks], first, number, key)
				if !slices.Equal(got, want) {
					t.Fatalf("%d blocks from %#x, number %#x, key %#x: %x, expected %x", blocks, first, number, key, got, want)
				}
			}
		}
	})
}

// TestUnits and TestKeep compare with Go at all lengths.
func TestUnits(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths() {
			x := make([]uint32, n)
			for i := range x {
				x[i] = r.Uint32()
			}
			if n > 0 {
				x[0], x[n-1] = math.MaxUint32, 0
			}
			dst := newFenced(n, r.IntN(17), func() float32 { return 7 })
			k.Units(dst.v, x)
			dst.intact(t, "Units")
			for i, v := range dst.v {
				if want := float32(float64(x[i]>>8) * 0x1p-24); v != want || v >= 1 {
					t.Fatalf("unit %d of %d, %#x, is %v, expected %v", i, n, x[i], v, want)
				}
			}
		}
	})
}

func TestKeep(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for _, n := range lengths() {
			special := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1)), math.MaxFloat32}
			x := newFenced(n, r.IntN(17), func() float32 {
				if r.IntN(4) == 0 {
					return special[r.IntN(len(special))]
				}
				return r.Float32() - 0.5
			})
			u := newFenced(n, r.IntN(17), r.Float32)
			least := r.Float32()
			if n == 50 {
				least = float32(math.NaN()) // keeps none
			}
			if n > 2 {
				u.v[1] = least
			}
			want, dst := make([]float32, n), newFenced(n, r.IntN(17), r.Float32)
			keepGo(want, x.v, u.v, least, 1.5)
			if r.IntN(2) == 0 {
				dst = x
			}
			k.Keep(dst.v, x.v, u.v, least, 1.5)
			dst.intact(t, "Keep")
			for i, v := range dst.v {
				if !identical(v, want[i]) {
					t.Fatalf("element %d of %d is %v, expected %v", i, n, v, want[i])
				}
			}
		}
	})
}
