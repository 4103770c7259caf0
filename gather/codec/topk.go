package codec

import (
	"math"
	"slices"
)

// chooser picks the coefficients of a row that are sent. It is not for concurrent use.
type chooser struct{ keys []uint64 }

// choose fills idx with the indices of the len(idx) elements of x that are largest in
// magnitude, and of equal ones those of the lowest index, ascending.
func (c *chooser) choose(idx []uint32, x []float32) {
	// A key is ordered as the choice is: magnitude, then the complement of the index.
	c.keys = c.keys[:0]
	for i, v := range x {
		magnitude := math.Float32bits(v) &^ (1 << 31)
		c.keys = append(c.keys, uint64(magnitude)<<32|uint64(^uint32(i)))
	}
	largest(c.keys, len(idx))
	for i, k := range c.keys[:len(idx)] {
		idx[i] = ^uint32(k)
	}
	slices.Sort(idx)
}

// largest moves the k largest keys, which are all different, to the front.
func largest(keys []uint64, k int) {
	lo, hi := 0, len(keys)
	for hi-lo > 1 && k > lo && k < hi {
		mid := lo + (hi-lo)/2
		pivot := max(min(keys[lo], keys[mid]), min(max(keys[lo], keys[mid]), keys[hi-1]))
		i, j := lo, hi-1
		for i <= j {
			for keys[i] > pivot {
				i++
			}
			for keys[j] < pivot {
				j--
			}
			if i <= j {
				keys[i], keys[j] = keys[j], keys[i]
				i++
				j--
			}
		}
		switch { // keys[lo:j+1] ≥ pivot ≥ keys[i:hi]
		case k <= j:
			hi = j + 1
		case k >= i:
			lo = i
		default:
			return
		}
	}
}
