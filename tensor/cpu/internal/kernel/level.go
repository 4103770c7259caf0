package kernel

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/isa"
)

// Level is an instruction set, as package isa has them.
type Level = isa.Level

// The levels that there are kernels for.
const (
	Go     = isa.Go
	AVX2   = isa.AVX2
	AVX512 = isa.AVX512
	AMX    = isa.AMX
	NEON   = isa.NEON
)

// Levels returns the levels that this machine can run, lowest first. It always holds
// [Go].
func Levels() []Level { return isa.Levels() }

// Best returns a new table of the highest level that this machine can run.
func Best() *Table[float32] { return newTable(isa.Best()) }

// Doubles returns a new table of float64 for a level that this machine can run.
// Some transcendental functions and the parts of fused rows are portable Go on all
// levels.
func Doubles(l Level) *Table[float64] {
	t := Portable[float64]()
	if l != Go {
		t.Level = l
		accelerateDoubles(t, l)
	}
	return t
}

// Select returns a new table of the given level, or an error that wraps [ErrUnsupported].
func Select(l Level) (*Table[float32], error) {
	if !slices.Contains(isa.Levels(), l) {
		return nil, fmt.Errorf("%w: %v, this machine has %v", ErrUnsupported, l, Levels())
	}
	t := newTable(l)
	if t.Level != l {
		return nil, fmt.Errorf("%w: %v, this process may use %v", ErrUnsupported, l, t.Level)
	}
	return t, nil
}

func newTable(l Level) *Table[float32] {
	t := Portable[float32]()
	if l != Go {
		accelerate(t, l)
	}
	return t
}
