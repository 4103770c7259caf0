package crc32c

import (
	"hash/crc32"
	"os"
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
	for i, d := range []int{8 * stride, 512, 128} {
		if want := (constants{power(d + 32), power(d - 32)}); folds[i] != want {
			t.Errorf("constants for a distance of %d: %#x, expected %#x", d, folds[i], want)
		}
	}
}

// TestWide compares the choice with the kernel's flags: where it is for hash/crc32, the
// other tests find nothing.
func TestWide(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nflags")
	line, _, _ := strings.Cut(after, "\n")
	want := true
	for _, flag := range []string{"avx512f", "vpclmulqdq", "sse4_2"} {
		want = want && strings.Contains(line+" ", " "+flag+" ")
	}
	if wide != want {
		t.Errorf("fold is used: %v, expected %v with the kernel's flags", wide, want)
	}
}
