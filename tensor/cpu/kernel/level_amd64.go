package kernel

import "golang.org/x/sys/cpu"

func supported(l Level) bool {
	switch l {
	case AVX2:
		return cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI2
	case AVX512:
		return supported(AVX2) && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL
	}
	return false
}
