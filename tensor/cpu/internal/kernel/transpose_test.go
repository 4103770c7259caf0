package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTranspose(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		transposes(t, r, k.Transpose, r.Float32)
		transposes(t, r, k.Transpose16, func() uint16 { return uint16(r.Uint32()) })
		transposes(t, r, k.Transpose8, func() uint8 { return uint8(r.Uint32()) })
		transposes(t, r, Doubles(k.Level).Transpose, r.Float64)
	})
}

// transposes compares f with single elements, for matrices with and without rests beside
// the blocks that f goes by, and looks at the elements around the result.
func transposes[T comparable](t *testing.T, r *rand.Rand, f func(dst []T, ds int, src []T, ss, rows, cols int), random func() T) {
	t.Helper()
	const fence = 64
	some := func(n int) []T {
		x := make([]T, n)
		for i := range x {
			x[i] = random()
		}
		return x
	}
	for range 200 {
		rows, cols := r.IntN(150), r.IntN(50)
		ds, ss := rows+r.IntN(3), cols+r.IntN(3)
		n := max(cols-1, 0)*ds + rows
		all, src := some(fence+n+fence), some(max(rows-1, 0)*ss+cols)
		before := slices.Clone(all)
		f(all[fence:fence+n:fence+n], ds, src, ss, rows, cols)
		for at, got := range all {
			want := before[at]
			if at -= fence; at >= 0 && at < n {
				if i, j := at%max(ds, 1), at/max(ds, 1); i < rows && j < cols {
					want = src[i*ss+j]
				}
			}
			if got != want {
				t.Fatalf("%dx%d of %T: element %d of %d is %v, want %v", rows, cols, got, at, n, got, want)
			}
		}
	}
}
