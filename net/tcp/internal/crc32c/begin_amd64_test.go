package crc32c

import (
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
)

// power returns x^n modulo the polynomial, in the order of bits of constants.
func power(n int) uint64 {
	r := uint32(1 << 31) // x^0
	for range n {
		low := r & 1
		r >>= 1
		if low != 0 {
			r ^= crc32.Castagnoli
		}
	}
	return uint64(r) << 1
}

// TestConstants computes the constants again from their definition.
func TestConstants(t *testing.T) {
	for i, d := range []int{8 * stride, 512, 256, 128} {
		if want := (constants{power(d + 32), power(d - 32)}); folds[i] != want {
			t.Errorf("constants for a distance of %d: %#x, expected %#x", d, folds[i], want)
		}
	}
}

// TestBest compares the choice with the kernel's flags: a kernel that is not run is not
// tested either.
func TestBest(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nflags")
	line, _, _ := strings.Cut(after, "\n")
	flags := strings.Fields(line)
	want := none
	if slices.Contains(flags, "vpclmulqdq") && slices.Contains(flags, "avx2") && slices.Contains(flags, "sse4_2") {
		want = halves
		if slices.Contains(flags, "avx512f") {
			want = vectors
		}
	}
	if best != want {
		t.Errorf("kernel %d is used, expected %d with the flags %v", best, want, flags)
	}
}

// each runs f with every kernel that the processor runs.
func each(f func(name string)) {
	defer func(k kernel) { best = k }(best)
	for k := best; k > none; k-- {
		best = k
		f(map[kernel]string{halves: "fold256", vectors: "fold512"}[k])
	}
}
