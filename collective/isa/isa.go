// Package isa names the instruction sets of the kernels, and finds the best that this
// machine runs.
package isa

import (
	"errors"
	"fmt"
	"strings"
)

// Level is an instruction set. A machine runs some of them: see [Levels].
type Level uint8

// The levels. Those of one processor come lowest first, and each has what the ones before
// it have.
const (
	Go Level = iota // portable Go, everywhere
	// amd64 with AVX2, BMI2, F16C and FMA (Intel since 2013, AMD since 2015)
	AVX2
	// amd64 with AVX-512 F, BW, DQ and VL (Intel since 2017, AMD since 2022)
	AVX512
	// AVX512 with AVX512_BF16 and AMX's tiles of bfloat16 (Intel servers since 2023)
	AMX
	// arm64, all of which have it
	NEON
)

var names = [...]string{Go: "go", AVX2: "avx2", AVX512: "avx512", AMX: "amx", NEON: "neon"}

// ErrLevel is returned when a text names no level.
var ErrLevel = errors.New("isa: unknown level")

// String returns "go", "avx2", "avx512", "amx" or "neon".
func (l Level) String() string {
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Parse is the inverse of [Level.String], in any case of letters. The error wraps
// [ErrLevel].
func Parse(s string) (Level, error) {
	for l, name := range names {
		if strings.EqualFold(s, name) {
			return Level(l), nil
		}
	}
	return Go, fmt.Errorf("%w: %q, want go, avx2, avx512, amx or neon", ErrLevel, s)
}

// Levels returns the levels that this machine runs, lowest first. It always holds [Go].
func Levels() []Level {
	ls := []Level{Go}
	for _, l := range ofProcessor {
		ls = append(ls, l)
		if l == Best() {
			return ls
		}
	}
	return ls[:1]
}
