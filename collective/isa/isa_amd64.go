package isa

import "golang.org/x/sys/cpu"

// ofProcessor are the levels of the processor's kind but Go, lowest first.
var ofProcessor = [...]Level{AVX2, AVX512}

// Best returns the highest level that this machine runs. It allocates nothing.
func Best() Level {
	switch x := &cpu.X86; {
	case !x.HasAVX2 || !x.HasBMI2 || !x.HasF16C || !x.HasFMA:
		return Go
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	}
	return AVX512
}

// FastStrings reports whether the processor's string instruction copies as fast as its
// vector stores do (Intel since 2012, AMD since 2020).
func FastStrings() bool { return cpu.X86.HasERMS }

// BrainFloat reports whether the processor has AVX512_BF16, instructions that round to
// bf16 (Intel since 2020, AMD since 2022).
func BrainFloat() bool { return cpu.X86.HasAVX512BF16 && Best() == AVX512 }
