package kernel

import "github.com/ringside-go/ringside/collective/isa"

// The levels that there are kernels for, as package isa has them.
const (
	Go     = isa.Go
	AVX2   = isa.AVX2
	AVX512 = isa.AVX512
)

// Set holds the kernels of one level. The zero value is portable Go.
type Set struct {
	level isa.Level
	brain bool // with AVX512_BF16
}

// Best returns the kernels of the highest level that this machine can run and that there
// are kernels for.
func Best() Set {
	switch best := isa.Best(); best {
	case AVX2, AVX512:
		return Set{best, isa.BrainFloat()}
	case isa.AMX: // which has nothing for sums of vectors
		return Set{AVX512, isa.BrainFloat()}
	}
	return Set{}
}

// Level returns the instruction set of s.
func (s Set) Level() isa.Level { return s.level }
