package kernel

// Blocking of the vector levels. A product is computed in blocks of at most depthMax of k: so many that what is read and
// written of c for each of them does not show, although a panel of b is then read from the second level cache, well ahead.
// Which depths depends on k alone, because that is what fixes the order of each sum.
const (
	depthMax = 512
	colsMax  = 2048 // columns of b of which packed panels are kept for more rows: 4 MiB, at home in the third level cache
	rowsMax  = 182  // rows of a packed at a time: 380 KiB, at home in the second level cache
	// shallowMax is up to how many rows of b are read where they lie, however many of a there are: what a panel has of them
	// stays in the first level cache.
	shallowMax = 64
	lanesMax   = 16 // numbers in a vector of any level
	unitMax    = 14 // tallest tile of any level
)

// depth returns the block depth for products over k.
func depth(k int) int {
	blocks := ceil(k, depthMax)
	if blocks <= 1 {
		return k
	}
	return ceil(ceil(k, blocks), 16) * 16
}

// GemmScratch returns the bytes of scratch that an m×k by k×n product needs, at most, on any level and for any
// strides. It never decreases when a size grows, up to the next block depth.
func GemmScratch(m, n, k int) int {
	d := depth(k)
	packB := min(ceil(n, lanesMax)*lanesMax, colsMax) * d
	packA := (min(m, rowsMax) + unitMax) * (d + 16)
	rest := lanesMax * d // columns of b fewer than a vector, before they are transposed
	return 4 * (packA + rest + packB)
}
