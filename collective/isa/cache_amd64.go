package isa

// cpuid is the instruction: what the processor says of itself.
//
//go:noescape
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// NearWays returns the ways of the first-level data cache: how many cache lines it keeps
// whose addresses are a multiple of 4 KiB apart. Processors have 12 (Intel since 2019,
// AMD since 2024) or 8 (most before). It returns 8 where the processor does not report
// it.
func NearWays() int {
	const (
		// leaves of the same layout: a cache for every subleaf
		intelCaches, amdCaches = 4, 0x8000001d
		dataCache              = 1 // eax, bits 0 to 4: its type; bits 5 to 7: its level
		// AMD's of this cache alone, which hypervisors that hide the other keep
		amdNear = 0x80000005
		full    = 0xff // in place of a number: every line can be at every place
	)
	has := func(leaf uint32) bool {
		last, _, _, _ := cpuid(leaf&0x80000000, 0)
		return last >= leaf
	}
	for _, leaf := range []uint32{intelCaches, amdCaches} {
		if !has(leaf) {
			continue
		}
		for sub := range uint32(8) {
			eax, ebx, _, _ := cpuid(leaf, sub)
			if eax&0x1f == 0 {
				break // no more caches
			}
			if eax&0x1f == dataCache && eax>>5&7 == 1 {
				return int(ebx>>22) + 1
			}
		}
	}
	if has(amdNear) {
		if _, _, ecx, _ := cpuid(amdNear, 0); ecx>>16&0xff != 0 && ecx>>16&0xff != full {
			return int(ecx >> 16 & 0xff)
		}
	}
	return 8
}
