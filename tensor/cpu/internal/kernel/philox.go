package kernel

// Philox returns a block of Table.Philox by its whole counter.
func Philox(c [4]uint32, k [2]uint32) [4]uint32 {
	// in variables, which lie in registers as arrays don't
	c0, c1, c2, c3, k0, k1 := c[0], c[1], c[2], c[3], k[0], k[1]
	for range 10 {
		p, q := 0xD2511F53*uint64(c0), 0xCD9E8D57*uint64(c2)
		c0, c1, c2, c3 = uint32(q>>32)^c1^k0, uint32(q), uint32(p>>32)^c3^k1, uint32(p)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}

func philoxGo(dst []uint32, first, number uint64, key [2]uint32) {
	for ; len(dst) >= 4; dst, first = dst[4:], first+1 {
		*(*[4]uint32)(dst) = Philox([4]uint32{uint32(first), uint32(first >> 32), uint32(number), uint32(number >> 32)}, key)
	}
}

func unitsGo[T Float](dst []T, x []uint32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = T(v>>8) * 0x1p-24
	}
}

func keepGo[T Float](dst, a, b []T, least, scale T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		if b[i] >= least {
			dst[i] = v * scale
		} else {
			dst[i] = 0
		}
	}
}
