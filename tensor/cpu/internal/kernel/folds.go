package kernel

import "github.com/ringside-go/ringside/collective/element"

// FoldFrom folds elements of S as numbers of T by one operation, which is associative but
// for rounding.
type FoldFrom[S any, T Number] struct {
	// Rows folds rows of n > 0 elements that begin stride elements apart:
	//
	//	dst[i] = x[i*stride] ∘ x[i*stride+1] ∘ … ∘ x[i*stride+n-1]
	//
	// Sums of numbers that are not converted have the bits of [Reductions].Sum.
	Rows func(dst []T, x []S, stride, n int)

	// Columns folds rows > 0 rows of len(dst) elements that begin stride elements apart,
	// in the order of the rows:
	//
	//	dst[j] = x[j] ∘ x[stride+j] ∘ … ∘ x[(rows-1)*stride+j]          // more false
	//	dst[j] = dst[j] ∘ x[j] ∘ x[stride+j] ∘ … ∘ x[(rows-1)*stride+j] // more true
	//
	// dst and x do not overlap.
	Columns func(dst []T, x []S, stride, rows int, more bool)

	// Least is the length of the shortest row that assembly folds, 0 on levels without
	// it. Loops over single elements fold shorter ones.
	Least int
}

// Fold is a FoldFrom whose elements are not converted.
type Fold[T Number] = FoldFrom[T, T]

// FoldsFrom are the folds of elements of S as numbers of T. Max and Min of floats are NaN
// if an element is.
type FoldsFrom[S any, T Number] struct{ Add, Mul, Max, Min FoldFrom[S, T] }

// FoldsOf are the folds of one type.
type FoldsOf[T Number] = FoldsFrom[T, T]

// Folds holds the folds of all types. Integers wrap. It has no Mul of float32 and of
// halves, and no Add and Mul of integers other than as int64.
type Folds struct {
	F32 FoldsOf[float32]
	F64 FoldsOf[float64]
	I32 FoldsOf[int32]
	I64 FoldsOf[int64]
	U8  FoldsOf[uint8]

	BF16, F16 FoldsFrom[uint16, float32]  // without Mul
	F32ToF64  FoldsFrom[float32, float64] // Mul
	I64ToF64  FoldsFrom[int64, float64]   // Add
	I32ToI64  FoldsFrom[int32, int64]     // Add and Mul
	U8ToI64   FoldsFrom[uint8, int64]     // Add and Mul

	// LongProduct returns s times the numbers of x.
	LongProduct func(s LongProduct, x []float64) LongProduct
}

// NewFolds returns the folds of a level that this machine can run, for the tables of that
// level.
func NewFolds(f32 *Table[float32], f64 *Table[float64]) *Folds {
	f := &Folds{F32: foldsOfFloats(f32), F64: foldsOfFloats(f64), I32: foldsOfInts[int32](), I64: foldsOfInts[int64](), U8: foldsOfInts[uint8](), LongProduct: longProductGo}
	f.U8.Max.Rows, f.U8.Min.Rows = bytesBy(largestApart, largestInt[uint8]), bytesBy(smallestApart, smallestInt[uint8])
	f.I64.Add = Fold[int64]{Rows: rowsBy(sum64), Columns: columnsBy(addGo[int64])}
	f.I64.Mul = foldFromGo(times[int64], func(v int64) int64 { return v })
	f.F64.Mul = Fold[float64]{Rows: rowsBy(product64), Columns: columnsBy(f64.Mul)}
	f.convertedGo()
	if f32.Level != Go {
		accelerateFolds(f, f32.Level)
	}
	return f
}

// Adds returns the sums of t.
func (t *Table[T]) Adds() Fold[T] { return Fold[T]{Rows: rowsBy(t.Sum), Columns: columnsBy(t.Add)} }

func foldsOfFloats[T Float](t *Table[T]) FoldsOf[T] {
	return FoldsOf[T]{
		Add: t.Adds(),
		Max: Fold[T]{Rows: rowsBy(t.RowMax), Columns: columnsBy(t.Max)},
		Min: Fold[T]{Rows: rowsBy(t.RowMin), Columns: columnsBy(t.Min)},
	}
}

func foldsOfInts[T Integer]() FoldsOf[T] {
	return FoldsOf[T]{
		Max: Fold[T]{Rows: rowsBy(largestInt[T]), Columns: columnsBy(maxGo[T])},
		Min: Fold[T]{Rows: rowsBy(smallestInt[T]), Columns: columnsBy(minGo[T])},
	}
}

// convertedGo sets the folds that convert elements, in Go.
func (f *Folds) convertedGo() {
	halves := func(widen func(x uint16) float32) FoldsFrom[uint16, float32] {
		return FoldsFrom[uint16, float32]{
			Add: foldFromGo(plus[float32], widen),
			Max: foldFromGo(func(a, b float32) float32 { return max(a, b) }, widen),
			Min: foldFromGo(func(a, b float32) float32 { return min(a, b) }, widen),
		}
	}
	f.BF16 = halves(func(x uint16) float32 { return element.BFloat16(x).Float32() })
	f.F16 = halves(func(x uint16) float32 { return element.Float16(x).Float32() })
	f.F32ToF64.Mul = foldFromGo(times[float64], func(x float32) float64 { return float64(x) })
	f.I64ToF64.Add = foldFromGo(plus[float64], func(x int64) float64 { return float64(x) })
	f.I32ToI64.Add = foldFromGo(plus[int64], func(x int32) int64 { return int64(x) })
	f.I32ToI64.Mul = foldFromGo(times[int64], func(x int32) int64 { return int64(x) })
	f.U8ToI64.Add = foldFromGo(plus[int64], func(x uint8) int64 { return int64(x) })
	f.U8ToI64.Mul = foldFromGo(times[int64], func(x uint8) int64 { return int64(x) })
}

func plus[T Number](a, b T) T  { return a + b }
func times[T Number](a, b T) T { return a * b }

// foldFromGo returns the fold by two of elements that as converts.
func foldFromGo[S any, T Number](two func(a, b T) T, as func(x S) T) FoldFrom[S, T] {
	return FoldFrom[S, T]{
		Rows: func(dst []T, x []S, stride, n int) {
			for i := range dst {
				row := x[i*stride:][:n]
				acc := as(row[0])
				for _, v := range row[1:] {
					acc = two(acc, as(v))
				}
				dst[i] = acc
			}
		},
		Columns: func(dst []T, x []S, stride, rows int, more bool) {
			for i := range rows {
				row := x[i*stride:][:len(dst)]
				for j, v := range row {
					if i == 0 && !more {
						dst[j] = as(v)
					} else {
						dst[j] = two(dst[j], as(v))
					}
				}
			}
		},
	}
}

// rowsBy returns [Fold].Rows by a function that folds one row.
func rowsBy[T Number](row func(x []T) T) func(dst, x []T, stride, n int) {
	return func(dst, x []T, stride, n int) {
		for i := range dst {
			dst[i] = row(x[i*stride:][:n])
		}
	}
}

// bytesBy returns [Fold].Rows of bytes. Rows so short that a call for each would take
// most of the time are folded by column, some rows at a time and one column after
// another; others by row.
func bytesBy(column func(dst, x []uint8, stride int), row func(x []uint8) uint8) func(dst, x []uint8, stride, n int) {
	const short, strip = 64, 256
	others := rowsBy(row)
	return func(dst, x []uint8, stride, n int) {
		if n > short {
			others(dst, x, stride, n)
			return
		}
		for at := 0; len(dst) > 0; at += strip * stride {
			acc := dst[:min(len(dst), strip)]
			for i := range acc {
				acc[i] = x[at+i*stride]
			}
			for j := 1; j < n; j++ {
				column(acc, x[at+j:], stride)
			}
			dst = dst[len(acc):]
		}
	}
}

// largestApart and smallestApart are dst[i] = the extreme of dst[i] and x[i*stride]. The
// compiler makes branches of the extremes of bytes, and none of wider integers.
func largestApart(dst, x []uint8, stride int) {
	at := 0
	for i, v := range dst {
		dst[i] = uint8(max(int(v), int(x[at])))
		at += stride
	}
}

func smallestApart(dst, x []uint8, stride int) {
	at := 0
	for i, v := range dst {
		dst[i] = uint8(min(int(v), int(x[at])))
		at += stride
	}
}

// columnsBy returns [Fold].Columns by a function that folds two rows.
func columnsBy[T Number](two func(dst, a, b []T)) func(dst, x []T, stride, rows int, more bool) {
	return func(dst, x []T, stride, rows int, more bool) {
		for i := range rows {
			row := x[i*stride:][:len(dst)]
			if i == 0 && !more {
				copy(dst, row)
			} else {
				two(dst, dst, row)
			}
		}
	}
}

// sum64 returns the sum of a row.
func sum64(x []int64) (sum int64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// product64 returns the product of a row, by four products of every fourth element: one
// alone would wait for each multiplication.
func product64(x []float64) float64 {
	a, b, c, d := 1.0, 1.0, 1.0, 1.0
	for ; len(x) >= 4; x = x[4:] {
		v := (*[4]float64)(x)
		a, b, c, d = a*v[0], b*v[1], c*v[2], d*v[3]
	}
	for _, v := range x {
		a *= v
	}
	return a * b * (c * d)
}

// largestInt and smallestInt return the extreme of a row that is not empty.
func largestInt[T Integer](x []T) T {
	a := x[0]
	for _, v := range x {
		a = max(a, v)
	}
	return a
}

func smallestInt[T Integer](x []T) T {
	a := x[0]
	for _, v := range x {
		a = min(a, v)
	}
	return a
}
