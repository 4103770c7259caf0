package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPacks compares the kernels of Packs of all levels with loops over single elements.
// Operands and results end where the next byte can't be read.
func TestPacks(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		checkPack(t, r, "Rows", k.Packs.Rows, func(x []uint8, j int) uint8 { return x[j] }, true)
		first := func(x []uint8, _ int) uint8 { return x[0] }
		checkPack(t, r, "Spread8", k.Spread8, first, false)
		checkPack(t, r, "Spread16", k.Spread16, func(x []uint16, _ int) uint16 { return x[0] }, false)
		checkPack(t, r, "Spread32", k.Spread32, func(x []uint32, _ int) uint32 { return x[0] }, false)
		checkPack(t, r, "Spread64", k.Spread64, func(x []uint64, _ int) uint64 { return x[0] }, false)
		checkEvens(t, r, "Evens8", k.Evens8)
		checkEvens(t, r, "Evens16", k.Evens16)
		checkEvens(t, r, "Evens32", k.Evens32)
		checkEvens(t, r, "Evens64", k.Evens64)
	})
}

type word interface {
	uint8 | uint16 | uint32 | uint64
}

// checkPack compares f with a loop: at gives element j of the row that begins x. whole is
// whether all elements of a row are read.
func checkPack[T word](t *testing.T, r *rand.Rand, name string, f func(dst, x []T, n, stride int), at func(x []T, j int) T, whole bool) {
	t.Helper()
	mem, results := edgeOf[T](t), edgeOf[T](t)
	for range 400 {
		rows, n := r.IntN([]int{4, 90}[r.IntN(2)]), 1+r.IntN(80)
		stride := []int{0, 1, n, n + r.IntN(20), r.IntN(100)}[r.IntN(5)]
		need := 1
		if whole {
			need = n
		}
		x := random(r, mem[len(mem)-max(rows-1, 0)*stride-need:])
		got := results[len(results)-rows*n:]
		before := results[:len(results)-rows*n]
		guard := before[len(before)-1]
		var want []T
		for i := range rows {
			for j := range n {
				want = append(want, at(x[i*stride:], j))
			}
		}
		what := fmt.Sprintf("%s of %d rows of %d, %d apart", name, rows, n, stride)
		faultless(t, what, func() { f(got, x, n, stride) })
		if !slices.Equal(got, want) || before[len(before)-1] != guard {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
}

func checkEvens[T word](t *testing.T, r *rand.Rand, name string, f func(dst, x []T)) {
	t.Helper()
	mem, results := edgeOf[T](t), edgeOf[T](t)
	for range 200 {
		n := r.IntN([]int{20, 400}[r.IntN(2)])
		x, got := random(r, mem[len(mem)-max(2*n-1, 0):]), results[len(results)-n:]
		var want []T
		for i := range n {
			want = append(want, x[2*i])
		}
		faultless(t, name, func() { f(got, x) })
		if !slices.Equal(got, want) {
			t.Fatalf("%s of %d: %v, want %v", name, n, got, want)
		}
	}
}

// random fills x with any numbers.
func random[T word](r *rand.Rand, x []T) []T {
	for i := range x {
		x[i] = T(r.Uint64())
	}
	return x
}
