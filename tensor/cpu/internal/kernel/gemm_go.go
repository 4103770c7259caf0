package kernel

import "sync/atomic"

// Gemm is [Table.Gemm] in portable Go, for every element type; it needs no scratch. Sums
// of integers wrap around. As there, an element of c gets the same bits in every
// rectangle.
func Gemm[T Number](m, n, k int, alpha T, a, b Matrix[T], accumulate bool, c []T, ldc int, stop *atomic.Bool) {
	checkGemm(m, n, k, a, b, c, ldc)
	if m == 0 || n == 0 {
		return
	}
	if k == 0 {
		zeroUnless(accumulate, m, n, c, ldc)
		return
	}
	// A panel of 4 columns of b at a time, packed here so that the inner loop reads it in
	// order.
	const depth = 256
	var panel [depth * 4]T
	for j := 0; j < n; j += 4 {
		nc := min(4, n-j)
		for p := 0; p < k; p += depth {
			if stopped(stop) {
				return
			}
			kc := min(depth, k-p)
			packPanel(panel[:4*kc], b.Sub(p, j), nc)
			add := accumulate || p > 0
			i := 0
			for ; i+4 <= m; i += 4 {
				if stopped(stop) {
					return
				}
				tile4(panel[:4*kc], a.Sub(i, p), alpha, add, c[i*ldc+j:], ldc, nc)
			}
			for ; i < m; i++ {
				tile1(panel[:4*kc], a.Sub(i, p), alpha, add, c[i*ldc+j:], nc)
			}
		}
	}
}

// stopped reports whether stop is set; nil is not.
func stopped(stop *atomic.Bool) bool { return stop != nil && stop.Load() }

// packPanel stores nc columns of b in rows of 4, zeros beyond.
func packPanel[T Number](panel []T, b Matrix[T], nc int) {
	if nc < 4 {
		clear(panel)
	}
	for j := range nc {
		at := j * b.CS
		for q := j; q < len(panel); q += 4 {
			panel[q] = b.Data[at]
			at += b.RS
		}
	}
}

// tile4 adds the product of 4 rows of a and a panel to a 4×nc tile of c. The conversions
// T(x*y) keep a compiler from fusing multiplication and addition here but not in tile1.
func tile4[T Number](panel []T, a Matrix[T], alpha T, add bool, c []T, ldc, nc int) {
	var s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33 T
	r0, r1, r2, r3 := a.Data, a.Data[a.RS:], a.Data[2*a.RS:], a.Data[3*a.RS:]
	at := 0
	for ; len(panel) >= 4; panel = panel[4:] {
		b0, b1, b2, b3 := panel[0], panel[1], panel[2], panel[3]
		v := r0[at]
		s00, s01, s02, s03 = s00+T(v*b0), s01+T(v*b1), s02+T(v*b2), s03+T(v*b3)
		v = r1[at]
		s10, s11, s12, s13 = s10+T(v*b0), s11+T(v*b1), s12+T(v*b2), s13+T(v*b3)
		v = r2[at]
		s20, s21, s22, s23 = s20+T(v*b0), s21+T(v*b1), s22+T(v*b2), s23+T(v*b3)
		v = r3[at]
		s30, s31, s32, s33 = s30+T(v*b0), s31+T(v*b1), s32+T(v*b2), s33+T(v*b3)
		at += a.CS
	}
	storeTile(c[:nc], alpha, add, s00, s01, s02, s03)
	storeTile(c[ldc:ldc+nc], alpha, add, s10, s11, s12, s13)
	storeTile(c[2*ldc:2*ldc+nc], alpha, add, s20, s21, s22, s23)
	storeTile(c[3*ldc:3*ldc+nc], alpha, add, s30, s31, s32, s33)
}

// tile1 is tile4 for one row.
func tile1[T Number](panel []T, a Matrix[T], alpha T, add bool, c []T, nc int) {
	var s0, s1, s2, s3 T
	at := 0
	for ; len(panel) >= 4; panel = panel[4:] {
		v := a.Data[at]
		s0, s1, s2, s3 = s0+T(v*panel[0]), s1+T(v*panel[1]), s2+T(v*panel[2]), s3+T(v*panel[3])
		at += a.CS
	}
	storeTile(c[:nc], alpha, add, s0, s1, s2, s3)
}

func storeTile[T Number](c []T, alpha T, add bool, s0, s1, s2, s3 T) {
	s := [4]T{T(alpha * s0), T(alpha * s1), T(alpha * s2), T(alpha * s3)}
	for j := range c {
		if add {
			c[j] += s[j]
		} else {
			c[j] = s[j]
		}
	}
}

// zeroUnless stores the product of matrices of depth zero.
func zeroUnless[T Number](accumulate bool, m, n int, c []T, ldc int) {
	if accumulate {
		return
	}
	for i := range m {
		clear(c[i*ldc : i*ldc+n])
	}
}

// checkGemm panics unless every element that the product reads or writes lies in its
// slice.
func checkGemm[T Number](m, n, k int, a, b Matrix[T], c []T, ldc int) {
	if m < 0 || n < 0 || k < 0 || a.RS < 0 || a.CS < 0 || b.RS < 0 || b.CS < 0 {
		panic("kernel: Gemm: negative size or stride")
	}
	if m == 0 || n == 0 {
		return
	}
	if m > 1 && ldc < n {
		panic("kernel: Gemm: rows of c overlap")
	}
	_ = c[(m-1)*ldc+n-1]
	if k > 0 {
		_ = a.Data[(m-1)*a.RS+(k-1)*a.CS]
		_ = b.Data[(k-1)*b.RS+(n-1)*b.CS]
	}
}
