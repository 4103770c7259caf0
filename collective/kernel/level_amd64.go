package kernel

import "golang.org/x/sys/cpu"

func best() Level {
	switch x := &cpu.X86; {
	case !x.HasAVX2 || !x.HasBMI2 || !x.HasF16C || !x.HasERMS:
		return Go
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	}
	return AVX512
}
