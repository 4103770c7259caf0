package kernel

// Blocking of the vector levels. A product is computed in blocks of at most depthMax of
// k. With that depth the reads and writes of c for each block cost little, although a
// panel of b then comes from the second-level cache, well ahead. The depths depend on k
// alone, because they fix the order of each sum.
const (
	depthMax = 512
	// columns of b whose packed panels are kept for more rows: 4 MiB, the third-level
	// cache
	colsMax = 2048
	rowsMax = 182 // rows of a packed at a time: 380 KiB, the second-level cache
	// shallowMax is the most rows of b that are read in place, however many rows a has:
	// their part of a panel stays in the first-level cache.
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

// GemmScratch returns the most numbers of scratch that an m×k by k×n product needs, on
// any level and for any strides. It never decreases when a size grows, up to the next
// block depth.
func GemmScratch(m, n, k int) int {
	d := depth(k)
	packB := min(ceil(n, lanesMax)*lanesMax, colsMax) * d
	packA := (min(m, rowsMax) + unitMax) * (d + 16)
	rest := lanesMax * d // columns of b fewer than a vector, before they are transposed
	return packA + rest + packB
}
