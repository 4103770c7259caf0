package isa

import (
	"syscall"

	"golang.org/x/sys/cpu"
)

// ofProcessor are the levels of the processor's kind but Go, lowest first.
var ofProcessor = [...]Level{AVX2, AVX512, AMX}

// Best returns the highest level that this machine runs. It allocates nothing, and asks
// for nothing: a process needs AskTiles before it uses the tiles of AMX.
func Best() Level {
	switch x := &cpu.X86; {
	case !x.HasAVX2 || !x.HasBMI2 || !x.HasF16C || !x.HasFMA:
		return Go
	case !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL:
		return AVX2
	case !x.HasAVX512BF16 || !x.HasAMXTile || !x.HasAMXBF16 || !tilesKnown():
		return AVX512
	}
	return AMX
}

// AskTiles asks the kernel to let all threads of this process use tiles, and reports
// whether they may. A thread whose alternate signal stack has no room for tiles is a
// reason to refuse. From then on a signal's frame has room for them, 8 KiB, on threads
// that have used one, and the kernel refuses alternate signal stacks that are too small
// for that. So only a process that multiplies by tiles asks.
func AskTiles() bool {
	const requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM, since Linux 5.16
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}

// FastStrings reports whether the processor's string instruction copies as fast as its
// vector stores do (Intel since 2012, AMD since 2020).
func FastStrings() bool { return cpu.X86.HasERMS }

// BrainFloat reports whether the processor has AVX512_BF16, instructions that round to
// bf16 (Intel since 2020, AMD since 2022).
func BrainFloat() bool { return cpu.X86.HasAVX512BF16 && Best() >= AVX512 }
