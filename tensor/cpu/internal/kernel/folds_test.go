package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestFolds compares the folds of all levels with loops over single elements. Operands
// and results end where the next byte can't be read, and the numbers are such that no
// order of additions rounds.
func TestFolds(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		f := NewFolds(k, Doubles(k.Level))
		small := func() float64 { return float64(r.IntN(2001) - 1000) }
		add := func(a, b float64) float64 { return a + b }
		checkFold(t, r, "Add f32", f.F32.Add, add, small)
		checkFold(t, r, "Add f64", f.F64.Add, add, small)
		checkFold(t, r, "Add i64", f.I64.Add, add, func() float64 { return float64(r.Int64N(1<<41) - 1<<40) })
		checkFold(t, r, "Mul f64", f.F64.Mul, func(a, b float64) float64 { return a * b }, func() float64 { return []float64{1, 1, 1, -1, 2, 0.5}[r.IntN(6)] })
		checkWrapped(t, r, "Mul i64", f.I64.Mul, func() int64 { return int64(r.Uint64() | 1) }, func(x int64) int64 { return x })
		checkExtremes(t, r, "f32", f.F32, func() float64 { return special(r, small) })
		checkExtremes(t, r, "f64", f.F64, func() float64 { return special(r, small) })
		checkExtremes(t, r, "i32", f.I32, func() float64 { return float64(int32(r.Uint32())) })
		checkExtremes(t, r, "i64", f.I64, func() float64 { return float64(int64(r.Uint64()) >> 11) })
		checkExtremes(t, r, "u8", f.U8, func() float64 { return float64(uint8(r.Uint32())) })
	})
}

// TestFoldsConvert compares the folds that convert elements of all levels with loops over
// single ones.
func TestFoldsConvert(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		f := NewFolds(k, Doubles(k.Level))
		small := func() float64 { return float64(r.IntN(201) - 100) }
		add := func(a, b float64) float64 { return a + b }
		mul := func(a, b float64) float64 { return a * b }
		one := func() float64 { return []float64{1, 1, 1, -1, 2, 0.5}[r.IntN(6)] }
		for name, h := range map[string]struct {
			f  FoldsFrom[uint16, float32]
			to func(x float32) uint16
			as func(x uint16) float32
		}{
			"bf16": {f.BF16, func(x float32) uint16 { return uint16(element.ToBFloat16(x)) }, func(x uint16) float32 { return element.BFloat16(x).Float32() }},
			"f16":  {f.F16, func(x float32) uint16 { return uint16(element.ToFloat16(x)) }, func(x uint16) float32 { return element.Float16(x).Float32() }},
		} {
			checkConverted(t, r, "Add "+name, h.f.Add, add, small, func(x float64) uint16 { return h.to(float32(x)) }, h.as)
			rare := func() float64 { return special(r, small) }
			checkConverted(t, r, "Max "+name, h.f.Max, largest, rare, func(x float64) uint16 { return h.to(float32(x)) }, h.as)
			checkConverted(t, r, "Min "+name, h.f.Min, smallest, rare, func(x float64) uint16 { return h.to(float32(x)) }, h.as)
		}
		checkConverted(t, r, "Mul f32", f.F32ToF64.Mul, mul, one, func(x float64) float32 { return float32(x) }, func(x float32) float64 { return float64(x) })
		checkConverted(t, r, "Add i64 as f64", f.I64ToF64.Add, add, func() float64 { return float64(r.Int64N(1<<41) - 1<<40) },
			func(x float64) int64 { return int64(x) }, func(x int64) float64 { return float64(x) })
		i32 := func() int32 { return int32(r.Uint32()) | 1 }
		checkWrapped(t, r, "Mul i32", f.I32ToI64.Mul, i32, func(x int32) int64 { return int64(x) })
		checkWrapped(t, r, "Mul u8", f.U8ToI64.Mul, func() uint8 { return uint8(r.Uint32() | 1) }, func(x uint8) int64 { return int64(x) })
		checkConverted(t, r, "Add i32", f.I32ToI64.Add, add, func() float64 { return float64(i32()) }, func(x float64) int32 { return int32(x) }, func(x int32) int64 { return int64(x) })
		checkConverted(t, r, "Add u8", f.U8ToI64.Add, add, func() float64 { return float64(r.IntN(256)) }, func(x float64) uint8 { return uint8(x) }, func(x uint8) int64 { return int64(x) })
	})
}

// TestIntegersToDoubles wants integers of 64 bits to become the nearest float64.
func TestIntegersToDoubles(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		f := NewFolds(k, Doubles(k.Level)).I64ToF64.Add
		x := []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 511, math.MaxInt64 - 512, 1<<53 + 1, -1<<53 - 1, -1, 0, 1, math.MinInt64 + 1}
		for range 1000 {
			x = append(x, int64(r.Uint64())>>r.IntN(64))
		}
		got := make([]float64, len(x))
		f.Columns(got, x, 0, 1, false)
		for i, v := range x {
			if got[i] != float64(v) {
				t.Fatalf("%d is %v, want %v", v, got[i], float64(v))
			}
		}
	})
}

// special returns a number of draw, and seldom an infinity or a NaN.
func special(r *rand.Rand, draw func() float64) float64 {
	switch r.IntN(200) {
	case 0:
		return math.Inf(1)
	case 1:
		return math.Inf(-1)
	case 2:
		return math.NaN()
	}
	return draw()
}

func checkExtremes[T Number](t *testing.T, r *rand.Rand, name string, f FoldsOf[T], draw func() float64) {
	t.Helper()
	checkFold(t, r, "Max "+name, f.Max, largest, draw)
	checkFold(t, r, "Min "+name, f.Min, smallest, draw)
}

func checkFold[T Number](t *testing.T, r *rand.Rand, name string, f Fold[T], two func(a, b float64) float64, draw func() float64) {
	t.Helper()
	checkConverted(t, r, name, f, two, draw, func(x float64) T { return T(x) }, func(x T) T { return x })
}

// checkConverted compares a fold that converts elements with a loop. to makes an element
// of a number, as makes a number of an element.
func checkConverted[S any, T Number](t *testing.T, r *rand.Rand, name string, f FoldFrom[S, T], two func(a, b float64) float64, draw func() float64, to func(x float64) S, as func(x S) T) {
	t.Helper()
	checkFolded(t, r, name, f, func(a, b T) T { return T(two(float64(a), float64(b))) }, func() S { return to(draw()) }, as)
}

// checkWrapped compares a fold that multiplies integers, which wrap, with a loop.
func checkWrapped[S any](t *testing.T, r *rand.Rand, name string, f FoldFrom[S, int64], draw func() S, as func(x S) int64) {
	t.Helper()
	checkFolded(t, r, name, f, func(a, b int64) int64 { return a * b }, draw, as)
}

func checkFolded[S any, T Number](t *testing.T, r *rand.Rand, name string, f FoldFrom[S, T], two func(a, b T) T, draw func() S, as func(x S) T) {
	t.Helper()
	mem, results := edgeOf[S](t), edgeOf[T](t)
	for range 400 {
		rows, n := 1+r.IntN(20), 1+r.IntN([]int{20, 150, 700}[r.IntN(3)])
		stride := n + r.IntN(5)
		x := mem[len(mem)-(rows-1)*stride-n:]
		for i := range x {
			x[i] = draw()
		}
		what := fmt.Sprintf("%s of %d rows of %d, %d apart", name, rows, n, stride)

		got, want := results[len(results)-rows:], make([]T, rows)
		for i := range want {
			row := x[i*stride:][:n]
			acc := as(row[0])
			for _, v := range row[1:] {
				acc = two(acc, as(v))
			}
			want[i] = acc
		}
		faultless(t, what, func() { f.Rows(got, x, stride, n) })
		if !alike(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}

		more := r.IntN(2) == 0
		got, want = results[len(results)-n:], make([]T, n)
		for j := range got {
			got[j] = as(draw())
			acc := got[j]
			for i := range rows {
				if i == 0 && !more {
					acc = as(x[j])
				} else {
					acc = two(acc, as(x[i*stride+j]))
				}
			}
			want[j] = acc
		}
		faultless(t, what, func() { f.Columns(got, x, stride, rows, more) })
		if !alike(got, want) {
			t.Fatalf("columns of %s, more %v: %v, want %v", what, more, got, want)
		}
	}
}

// alike reports whether the numbers are equal or both NaN.
func alike[T Number](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool { return x == y || x != x && y != y })
}

// TestFoldsAddUpAsRows wants the sums of rows to have the bits of those of single rows,
// and long rows of integers to be folded.
func TestFoldsAddUpAsRows(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		f := NewFolds(k, Doubles(k.Level))
		for _, n := range []int{1, 15, 64, 257, 1000, longRow, longRow + 9} {
			x := make([]float32, 3*n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			var got [3]float32
			f.F32.Add.Rows(got[:], x, n, n)
			for i, v := range got {
				if want := k.Sum(x[i*n:][:n]); v != want {
					t.Errorf("row of %d: %v, alone %v", n, v, want)
				}
			}
		}
		long := make([]uint8, 8*longRow+77)
		long[len(long)-3] = 9
		var got [1]uint8
		if f.U8.Max.Rows(got[:], long, 0, len(long)); got[0] != 9 {
			t.Errorf("the largest of a long row is %d, want 9", got[0])
		}
	})
}
