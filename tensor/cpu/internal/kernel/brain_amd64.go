package kernel

import "sync/atomic"

type fewBrainFunc = func(n, pairs int, a *uint16, rsA int, b *uint16, rsB int, c *float32, ldc int, add int)

// brainUnit is the assembly of [BrainProducts]. Strides are in bytes.
type brainUnit struct {
	unit     *gemmUnit[float32]
	pairRows func(n int, dst *float32, x, y *uint16)
	few      []fewBrainFunc // by rows-1
}

const (
	// fewPairs is how many pairs of rows of b are added at a time, for brainCols columns:
	// these stay in the first-level cache while all rows of a read them.
	fewPairs  = 8
	brainCols = 1024
)

func (u *brainUnit) products() *BrainProducts {
	return &BrainProducts{
		Gemm: func(m, n, k int, a, b Matrix[float32], c []float32, ldc int, scratch []float32, stop *atomic.Bool) {
			u.unit.gemm(m, n, k, 1, a, b, false, c, ldc, scratch, stop)
		},
		Pair: u.pair,
		Few:  u.fewRows,
	}
}

func (u *brainUnit) pair(dst []float32, x, y []uint16) {
	x, y = x[:len(dst)], y[:len(dst)]
	done := 0
	for done+BrainColumns <= len(dst) {
		n := min(len(dst)-done, chunk) &^ (BrainColumns - 1)
		u.pairRows(n, &dst[done], &x[done], &y[done])
		done += n
	}
	for i := done; i < len(dst); i++ {
		dst[i] = PairOf(x[i], y[i])
	}
}

func (u *brainUnit) fewRows(m, n, k int, a []uint16, rsA int, b []uint16, rsB int, c []float32, ldc int, stop *atomic.Bool) {
	if m == 0 || n == 0 || k == 0 {
		return
	}
	_, _, _ = a[(m-1)*rsA+k-1], b[(k-1)*rsB+n-1], c[(m-1)*ldc+n-1]
	for j := 0; j < n; j += brainCols {
		cols := min(brainCols, n-j)
		for d := 0; d < k; d += 2 * fewPairs {
			if stopped(stop) {
				return
			}
			pairs := min(fewPairs, (k-d)/2)
			for i := 0; i < m; i += len(u.few) {
				f := u.few[min(len(u.few), m-i)-1]
				f(cols, pairs, &a[i*rsA+d], 2*rsA, &b[d*rsB+j], 2*rsB, &c[i*ldc+j], 4*ldc, min(d, 1))
			}
		}
	}
}
