package kernel

import "math"

// philoxBy returns f over slices, in groups of so many blocks, with the rest done in Go.
// f does not carry from the lowest word of the counter.
func philoxBy(blocks int, f func(n int, dst *uint32, c0, c1, c2, c3, k0, k1 uint32)) func(dst []uint32, first, number uint64, key [2]uint32) {
	return func(dst []uint32, first, number uint64, key [2]uint32) {
		for len(dst) >= 4*blocks && uint64(uint32(first))+uint64(len(dst)/4) <= math.MaxUint32 {
			n := min(len(dst), chunk) / (4 * blocks)
			f(n, &dst[0], uint32(first), uint32(first>>32), uint32(number), uint32(number>>32), key[0], key[1])
			dst, first = dst[4*blocks*n:], first+uint64(blocks*n)
		}
		philoxGo(dst, first, number, key)
	}
}
