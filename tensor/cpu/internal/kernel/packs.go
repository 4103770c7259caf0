package kernel

// PackMost is the most bytes of a row, or of an element's copies, that [Packs] copies by
// vectors.
const PackMost = 64

// Packs copy elements that lie apart, one after another. They have the same bits on all
// levels. The operands do not overlap.
type Packs struct {
	// Rows copies len(dst)/n rows of n > 0 bytes that begin stride >= 0 bytes apart:
	//
	//	dst[i*n+j] = x[i*stride+j]
	Rows func(dst, x []uint8, n, stride int)

	// Spread8 and the others copy the first element of each of len(dst)/n rows to n > 0
	// places:
	//
	//	dst[i*n+j] = x[i*stride]
	Spread8  func(dst, x []uint8, n, stride int)
	Spread16 func(dst, x []uint16, n, stride int)
	Spread32 func(dst, x []uint32, n, stride int)
	Spread64 func(dst, x []uint64, n, stride int)

	// Evens8 and the others copy every second element: dst[i] = x[2*i].
	Evens8  func(dst, x []uint8)
	Evens16 func(dst, x []uint16)
	Evens32 func(dst, x []uint32)
	Evens64 func(dst, x []uint64)
}

func portablePacks() Packs {
	return Packs{
		Rows:    packRowsGo,
		Spread8: spreadGo[uint8], Spread16: spreadGo[uint16], Spread32: spreadGo[uint32], Spread64: spreadGo[uint64],
		Evens8: evensGo[uint8], Evens16: evensGo[uint16], Evens32: evensGo[uint32], Evens64: evensGo[uint64],
	}
}

func packRowsGo(dst, x []uint8, n, stride int) {
	for len(dst) >= n {
		copy(dst[:n], x[:n])
		dst = dst[n:]
		if len(dst) >= n {
			x = x[stride:]
		}
	}
}

func spreadGo[T any](dst, x []T, n, stride int) {
	for i := 0; len(dst) >= n; i += stride {
		v, row := x[i], dst[:n]
		for j := range row {
			row[j] = v
		}
		dst = dst[n:]
	}
}

func evensGo[T any](dst, x []T) {
	for i := range dst {
		dst[i] = x[2*i]
	}
}
