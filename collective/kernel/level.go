package kernel

import "fmt"

// Level is an instruction set that the kernels are written for. Higher is faster.
type Level uint8

// The levels, lowest first.
const (
	Go     Level = iota // portable Go, everywhere
	AVX2                // amd64 with AVX2, and F16C, which came before it
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
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Set is the kernels of one level. The zero value is portable Go.
type Set struct{ level Level }

// Best returns the kernels of the highest level that this machine can run.
func Best() Set { return Set{best()} }

// Select returns the kernels of a level, or an error that wraps [ErrLevel].
func Select(l Level) (Set, error) {
	if l > best() {
		return Set{}, fmt.Errorf("%w: %v, the best here is %v", ErrLevel, l, best())
	}
	return Set{l}, nil
}

// Level returns the instruction set of s.
func (s Set) Level() Level { return s.level }
