package kernel

import (
	"math"
	"sync/atomic"
)

const (
	// BrainRows is the most rows that [BrainProducts].Few takes.
	BrainRows = 8
	// BrainColumns divides the columns that it takes.
	BrainColumns = 32
	// TilesDepth is the most numbers that [BrainProducts].TilesRounded adds up.
	TilesDepth = 2048
)

// BrainProducts are products of bfloat16 that add up in float32. They multiply pairs: a
// float32 of an operand stands for two bfloat16 that are neighbours along the sum, the
// first in its lower half. Subnormal operands and results count as 0.
type BrainProducts struct {
	// Gemm is [Products].Gemm of pairs, of which k is the number, with alpha 1.
	Gemm func(m, n, k int, a, b Matrix[float32], c []float32, ldc int, scratch []float32, stop *atomic.Bool)

	// Pair makes pairs of two rows: the lower half of dst[i] is x[i], the upper y[i].
	Pair func(dst []float32, x, y []uint16)

	// Few is a product of up to [BrainRows] rows that reads b once, as it lies: c = a*b
	// for m rows of a, rsA apart, of k numbers, and k rows of b, rsB apart. k is even, n
	// a multiple of [BrainColumns].
	Few func(m, n, k int, a []uint16, rsA int, b []uint16, rsB int, c []float32, ldc int, stop *atomic.Bool)

	// Tiles is the product c = a*b of numbers as they lie, on the level AMX; nil on
	// others. scratch holds at least TilesScratch(m, n, k) numbers. Otherwise it is as
	// [Products].Gemm. TilesPay reports whether it takes less time than the others.
	Tiles        func(m, n, k int, a, b Halves, c []float32, ldc int, scratch []float32, stop *atomic.Bool)
	TilesScratch func(m, n, k int) int
	TilesPay     func(m, n, k int) bool

	// TilesRounded is Tiles with its results rounded to bfloat16, to nearest even, for
	// 0 < k ≤ [TilesDepth].
	TilesRounded func(m, n, k int, a, b Halves, c []uint16, ldc int, scratch []float32, stop *atomic.Bool)
}

// Halves is a [Matrix] of numbers stored in 16 bits.
type Halves struct {
	Data   []uint16
	RS, CS int
}

// PairOf returns the pair of x and y.
func PairOf(x, y uint16) float32 { return math.Float32frombits(uint32(x) | uint32(y)<<16) }

// T returns the transposed view.
func (h Halves) T() Halves { return Halves{Data: h.Data, RS: h.CS, CS: h.RS} }
