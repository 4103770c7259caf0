package crc32c

import "golang.org/x/sys/cpu"

const (
	// stride is how many bytes a kernel takes in one round.
	stride = 256

	// least is the fewest bytes for which a kernel is called. hash/crc32 takes no longer
	// for fewer.
	least = 1 << 10
)

// constants are powers of x modulo P, the polynomial of CRC32C, as numbers of 33 bits in
// the order of bits of the CRC32 instruction. A value of 128 bits that lies d bits ahead
// of another adds to it
//
//	its first 64 bits · (x^(d+32) mod P) + its last 64 bits · (x^(d-32) mod P)
//
// which is congruent to the value in its own place.
type constants struct{ first, last uint64 }

// folds are for the distances that the kernels need.
var folds = [4]constants{
	{0xdcb17aa4, 0xb9e02b86},  // d = 2048: a stride
	{0x740eef02, 0x9e4addf8},  // d = 512: a vector of 64 bytes
	{0x1384aa63a, 0xba4fc28e}, // d = 256: one of 32 bytes
	{0xf20c0dfe, 0x14cd00bd6}, // d = 128: 16 bytes
}

// kernel is what sums runs of bytes.
type kernel int

const (
	none    kernel = iota // hash/crc32
	halves                // fold256
	vectors               // fold512
)

// best is the fastest kernel that the processor runs.
var best = choose()

func choose() kernel {
	switch x := &cpu.X86; {
	case !x.HasSSE42 || !x.HasAVX2 || !multiplies():
		return none
	case !x.HasAVX512F:
		return halves
	}
	return vectors
}

// begin sums as much of b as it can by vectors and returns the rest.
func begin(crc uint32, b []byte) (uint32, []byte) {
	if best == none || len(b) < least {
		return crc, b
	}
	n := len(b) &^ (stride - 1)
	if best == vectors {
		return ^fold512(^crc, &b[0], n, &folds), b[n:]
	}
	return ^fold256(^crc, &b[0], n, &folds), b[n:]
}

// fold512 returns the sum of n bytes at p behind others with the sum crc, both inverted.
// n is a multiple of stride and not 0. It reads nothing else.
//
// It takes bytes as polynomials, and adds each vector of 64 bytes to the one a stride
// behind it by the rule of constants: two multiplications without carries for each
// 16 bytes. The last stride is added up likewise, until 16 bytes are left, which the
// CRC32 instruction sums.
//
//go:noescape
func fold512(crc uint32, p *byte, n int, k *[4]constants) uint32

// fold256 does so by vectors of 32 bytes, without AVX-512.
//
//go:noescape
func fold256(crc uint32, p *byte, n int, k *[4]constants) uint32

// multiplies reports whether the processor has VPCLMULQDQ: bit 10 of ECX of leaf 7 of
// CPUID. It has that leaf, as all with AVX2 do.
func multiplies() bool
