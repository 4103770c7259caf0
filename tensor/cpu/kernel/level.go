package kernel

import (
	"fmt"
	"strings"
)

// Level is an instruction set that kernels are written for. Higher is faster.
type Level int

// The levels, lowest first.
const (
	Go     Level = iota // portable Go, everywhere
	AVX2                // amd64 with AVX2 and FMA
	AVX512              // amd64 with AVX-512 F, BW, DQ and VL (Intel since 2017, AMD since Zen 4)
)

// String returns "go", "avx2" or "avx512".
func (l Level) String() string {
	switch l {
	case Go:
		return "go"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Level(%d)", int(l))
}

// ParseLevel is the inverse of [Level.String], in any case of letters. The error wraps [ErrLevel].
func ParseLevel(s string) (Level, error) {
	for l := Go; l <= AVX512; l++ {
		if strings.EqualFold(s, l.String()) {
			return l, nil
		}
	}
	return Go, fmt.Errorf("%w: %q, want go, avx2 or avx512", ErrLevel, s)
}

// Levels returns the levels that this machine can run, lowest first. It always holds [Go].
func Levels() []Level {
	ls := []Level{Go}
	for l := AVX2; l <= AVX512; l++ {
		if supported(l) {
			ls = append(ls, l)
		}
	}
	return ls
}

// Best returns a new table of the highest level that this machine can run.
func Best() *Table {
	ls := Levels()
	return newTable(ls[len(ls)-1])
}

// Select returns a new table of the given level, or an error that wraps [ErrUnsupported].
func Select(l Level) (*Table, error) {
	if l != Go && !supported(l) {
		return nil, fmt.Errorf("%w: %v, this machine has %v", ErrUnsupported, l, Levels())
	}
	return newTable(l), nil
}

func newTable(l Level) *Table {
	t := portable()
	t.rows()
	if l != Go {
		accelerate(t, l)
	}
	return t
}
