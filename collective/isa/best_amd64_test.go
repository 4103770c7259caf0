package isa

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestBest compares Best with the flags in /proc/cpuinfo: tests of vectors are left out
// where Best reports none.
func TestBest(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nflags")
	line, _, _ := strings.Cut(after, "\n")
	flags := strings.Fields(line)
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(flags, n) })
	}
	want := Go
	if has("avx2", "bmi2", "f16c", "fma") {
		want = AVX2
		if has("avx512f", "avx512bw", "avx512dq", "avx512vl") {
			want = AVX512
		}
	}
	if Best() != want {
		t.Errorf("the best level is %v, expected %v with the kernel's flags %v", Best(), want, flags)
	}
}
