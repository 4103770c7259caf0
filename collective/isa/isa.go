// Package isa names the instruction sets of the kernels, and finds the best that this
// machine runs.
package isa

import (
	"errors"
	"fmt"
	"strings"
)

// Level is an instruction set. Higher is faster.
type Level uint8

// The levels, lowest first. A level has what the ones below it have.
const (
	Go Level = iota // portable Go, everywhere
	// amd64 with AVX2, BMI2, F16C and FMA (Intel since 2013, AMD since 2015)
	AVX2
	// amd64 with AVX-512 F, BW, DQ and VL (Intel since 2017, AMD since 2022)
	AVX512
)

// ErrLevel is returned when a text names no level.
var ErrLevel = errors.New("isa: unknown level")

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
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Parse is the inverse of [Level.String], in any case of letters. The error wraps
// [ErrLevel].
func Parse(s string) (Level, error) {
	for l := Go; l <= AVX512; l++ {
		if strings.EqualFold(s, l.String()) {
			return l, nil
		}
	}
	return Go, fmt.Errorf("%w: %q, want go, avx2 or avx512", ErrLevel, s)
}

// Levels returns the levels that this machine runs, lowest first. It always holds [Go].
func Levels() []Level {
	ls := []Level{Go}
	for l := AVX2; l <= Best(); l++ {
		ls = append(ls, l)
	}
	return ls
}
