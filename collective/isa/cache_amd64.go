package isa

// cpuid is the instruction: what the processor says of itself.
//
//go:noescape
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// NearWays returns how many cache lines whose addresses are a multiple of 4 KiB apart the first level data cache keeps, its
// ways: 12 on Intel since 2019 and AMD since Zen 5, 8 on most before. It is 8 where the processor doesn't say.
func NearWays() int {
	const (
		intelCaches, amdCaches = 4, 0x8000001d // leaves of the same layout: a cache for every subleaf
		dataCache              = 1             // eax, bits 0 to 4: its type; bits 5 to 7: its level
	)
	for _, leaf := range []uint32{intelCaches, amdCaches} {
		if last, _, _, _ := cpuid(leaf&0x80000000, 0); last < leaf {
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
	return 8
}
