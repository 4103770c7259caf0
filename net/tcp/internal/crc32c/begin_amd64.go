package crc32c

import "golang.org/x/sys/cpu"

const (
	// stride is how many bytes fold takes in one round.
	stride = 256

	// least is the fewest bytes for which fold is called. hash/crc32 takes no longer for
	// fewer.
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

// folds are for the distances that fold needs.
var folds = [3]constants{
	{0xdcb17aa4, 0xb9e02b86},  // d = 2048: a stride
	{0x740eef02, 0x9e4addf8},  // d = 512: a vector
	{0xf20c0dfe, 0x14cd00bd6}, // d = 128: a quarter of one
}

// wide reports whether the processor runs fold.
var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// begin sums as much of b as it can by vectors and returns the rest.
func begin(crc uint32, b []byte) (uint32, []byte) {
	if !wide || len(b) < least {
		return crc, b
	}
	n := len(b) &^ (stride - 1)
	return ^fold(^crc, &b[0], n, &folds), b[n:]
}

// fold returns the sum of n bytes at p behind others with the sum crc, both inverted.
// n is a multiple of stride and not 0. It reads nothing else.
//
// It takes bytes as polynomials, and adds each vector of 64 bytes to the one a stride
// behind it by the rule of constants: two multiplications without carries for each
// 16 bytes. The last stride is added up likewise, until 16 bytes are left, which the
// CRC32 instruction sums.
//
//go:noescape
func fold(crc uint32, p *byte, n int, k *[3]constants) uint32
