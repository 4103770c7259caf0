package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestTranspose(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		for range 200 {
			rows, cols := r.IntN(50), r.IntN(50)
			ds, ss := rows+r.IntN(3), cols+r.IntN(3)
			dst, src := newFenced(max(cols-1, 0)*ds+rows, 3, r.Float32), newFenced(max(rows-1, 0)*ss+cols, 5, r.Float32)
			before := clone(dst.v)
			k.Transpose(dst.v, ds, src.v, ss, rows, cols)
			what := fmt.Sprintf("%dx%d", rows, cols)
			dst.intact(t, what)
			for at, got := range dst.v {
				want := before[at]
				if i, j := at%max(ds, 1), at/max(ds, 1); i < rows && j < cols {
					want = src.v[i*ss+j]
				}
				if !identical(got, want) {
					t.Fatalf("%s: element %d is %v, want %v", what, at, got, want)
				}
			}
		}
	})
}
