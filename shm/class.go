package shm

import "math/bits"

const (
	// pageSize is the unit of extents. It is the page of most machines and a
	// divisor of the others', and needs not be the system's.
	pageSize = 4096

	// minBlock is the least distance of two blocks: a cache line, so that two
	// owners never share one.
	minBlock = 64

	// shiftLines is by how many lines the starts of two large blocks differ that are
	// shifted one after the other: odd, so that all starts come in turn, and such that
	// those of a few blocks are far apart.
	shiftLines = 17

	// maxSmall is the largest block that shares a slab with others.
	maxSmall = 32 << 10

	// minSlab is the least size of a slab, and minSlabBlocks the least number of
	// blocks in one.
	minSlab       = 64 << 10
	minSlabBlocks = 8

	// numClasses is 64, 128, 192, 256 and then four sizes to each doubling up to
	// maxSmall.
	numClasses = 4 + 7*4
)

// classOf returns the smallest class for n bytes, n at most maxSmall.
func classOf(n int) int {
	if n <= 4*minBlock {
		return max(n-1, 0) / minBlock
	}
	e := bits.Len(uint(n - 1)) // 2^(e-1) < n <= 2^e
	return 4 + (e-9)*4 + (n-1-1<<(e-1))>>(e-3)
}

// classSize is the size of the blocks of a class.
func classSize(class int) int {
	if class < 4 {
		return (class + 1) * minBlock
	}
	e, step := (class-4)/4+9, (class-4)%4+1
	return 1<<(e-1) + step<<(e-3)
}

// slabPages is the number of pages of a slab of that class.
func slabPages(class int) int {
	return max(minSlab, roundUpInt(minSlabBlocks*classSize(class), pageSize)) / pageSize
}

func roundUpInt(n, to int) int { return (n + to - 1) / to * to }
