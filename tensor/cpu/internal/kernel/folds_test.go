package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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
		checkExtremes(t, r, "f32", f.F32, func() float64 { return special(r, small) })
		checkExtremes(t, r, "f64", f.F64, func() float64 { return special(r, small) })
		checkExtremes(t, r, "i32", f.I32, func() float64 { return float64(int32(r.Uint32())) })
		checkExtremes(t, r, "i64", f.I64, func() float64 { return float64(int64(r.Uint64()) >> 11) })
		checkExtremes(t, r, "u8", f.U8, func() float64 { return float64(uint8(r.Uint32())) })
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
	mem, results := edgeOf[T](t), edgeOf[T](t)
	for range 400 {
		rows, n := 1+r.IntN(20), 1+r.IntN([]int{20, 150, 700}[r.IntN(3)])
		stride := n + r.IntN(5)
		x := mem[len(mem)-(rows-1)*stride-n:]
		for i := range x {
			x[i] = T(draw())
		}
		what := fmt.Sprintf("%s of %d rows of %d, %d apart", name, rows, n, stride)

		got, want := results[len(results)-rows:], make([]T, rows)
		for i := range want {
			row := x[i*stride:][:n]
			acc := float64(row[0])
			for _, v := range row[1:] {
				acc = two(acc, float64(v))
			}
			want[i] = T(acc)
		}
		faultless(t, what, func() { f.Rows(got, x, stride, n) })
		if !alike(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}

		more := r.IntN(2) == 0
		got, want = results[len(results)-n:], make([]T, n)
		for j := range got {
			got[j] = T(draw())
			acc := float64(got[j])
			for i := range rows {
				if i == 0 && !more {
					acc = float64(x[j])
				} else {
					acc = two(acc, float64(x[i*stride+j]))
				}
			}
			want[j] = T(acc)
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
