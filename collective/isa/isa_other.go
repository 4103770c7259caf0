//go:build !amd64

package isa

// FastStrings reports whether the processor has an instruction that copies strings as
// fast as its vector stores do.
func FastStrings() bool { return false }

// BrainFloat reports whether the processor has AVX512_BF16.
func BrainFloat() bool { return false }
