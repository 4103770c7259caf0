package kernel

// transposeSide is the side of the squares that transposeGo moves at once: so many lines
// of either matrix stay in the first-level cache even where its strides put them into one
// set.
const transposeSide = 8

// transposeGo is Transpose in portable Go.
func transposeGo[T any](dst []T, ds int, src []T, ss, rows, cols int) {
	checkTranspose(dst, ds, src, ss, rows, cols)
	whole, wide := rows/transposeSide*transposeSide, cols/transposeSide*transposeSide
	for j := 0; j < wide; j += transposeSide {
		for i := 0; i < whole; i += transposeSide {
			transposeSquare(dst[j*ds+i:], ds, src[i*ss+j:], ss)
		}
	}
	transposeRest(dst, ds, src, ss, 0, whole, wide, cols)
	transposeRest(dst, ds, src, ss, whole, rows, 0, cols)
}

// transposeSquare is Transpose of a square.
func transposeSquare[T any](dst []T, ds int, src []T, ss int) {
	s0, s1, s2, s3 := (*[transposeSide]T)(src), (*[transposeSide]T)(src[ss:]), (*[transposeSide]T)(src[2*ss:]), (*[transposeSide]T)(src[3*ss:])
	s4, s5, s6, s7 := (*[transposeSide]T)(src[4*ss:]), (*[transposeSide]T)(src[5*ss:]), (*[transposeSide]T)(src[6*ss:]), (*[transposeSide]T)(src[7*ss:])
	for j := range transposeSide {
		d := (*[transposeSide]T)(dst[j*ds:])
		d[0], d[1], d[2], d[3] = s0[j], s1[j], s2[j], s3[j]
		d[4], d[5], d[6], d[7] = s4[j], s5[j], s6[j], s7[j]
	}
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
