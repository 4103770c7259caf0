package isa_test

import (
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
	"github.com/ringside-go/ringside/collective/isa/isatest"
)

// TestBest compares Levels with the kernel's report: tests of vectors are left out where
// isa reports none.
func TestBest(t *testing.T) {
	if got, want := isa.Levels(), isatest.Levels(t); !slices.Equal(got, want) || isa.Best() != want[len(want)-1] {
		t.Errorf("levels %v, the best is %v; expected %v by the kernel's report", got, isa.Best(), want)
	}
}
