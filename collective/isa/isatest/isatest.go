// Package isatest skips tests of instruction sets that this machine doesn't have, and
// fails them where the kernel says that it has them and package isa says that it has not.
package isatest

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
)

// Need skips the test unless this machine runs one of the levels. It fails the test if by
// [Levels] the machine runs one.
func Need(t testing.TB, levels ...isa.Level) {
	t.Helper()
	among := func(have []isa.Level) bool {
		return slices.ContainsFunc(levels, func(l isa.Level) bool { return slices.Contains(have, l) })
	}
	need(t, levels, among(isa.Levels()), among(Levels(t)))
}

// NeedBrainFloat skips the test where [isa.BrainFloat] is false, and fails it if by the
// flags in /proc/cpuinfo it should be true.
func NeedBrainFloat(t testing.TB) {
	t.Helper()
	need(t, "AVX512_BF16", isa.BrainFloat(), brainFloat(t))
}

// NeedFlag skips the test unless code has found that the processor has what /proc/cpuinfo
// calls flag. It fails the test if the kernel lists that.
func NeedFlag(t testing.TB, flag string, found bool) {
	t.Helper()
	need(t, flag, found, lists(t, flag))
}

// need skips the test unless isa has found what it needs, which the kernel may list.
func need(t testing.TB, what any, found, listed bool) {
	t.Helper()
	switch {
	case found:
	case listed:
		t.Fatalf("package isa says that this machine doesn't run %v, the kernel says that it does", what)
	default:
		t.Skipf("this machine doesn't run %v", what)
	}
}
