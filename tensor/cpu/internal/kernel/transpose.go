package kernel

// transposeGo is Transpose in portable Go.
func transposeGo[T any](dst []T, ds int, src []T, ss, rows, cols int) {
	checkTranspose(dst, ds, src, ss, rows, cols)
	transposeRest(dst, ds, src, ss, 0, rows, 0, cols)
}

// transposeRest transposes rows i0 to i1 and columns j0 to j1 one by one.
func transposeRest[T any](dst []T, ds int, src []T, ss, i0, i1, j0, j1 int) {
	for i := i0; i < i1; i++ {
		for j, v := range src[i*ss+j0 : i*ss+max(j0, j1)] {
			dst[(j0+j)*ds+i] = v
		}
	}
}

// checkTranspose panics unless both matrices lie in their slices.
func checkTranspose[T any](dst []T, ds int, src []T, ss, rows, cols int) {
	if rows < 0 || cols < 0 || ds < rows || ss < cols {
		panic("kernel: Transpose: rows overlap")
	}
	if rows > 0 && cols > 0 {
		_, _ = dst[(cols-1)*ds+rows-1], src[(rows-1)*ss+cols-1]
	}
}
