//go:build amd64 || arm64

package kernel

// transposeBlocks returns Transpose of elements of size bytes by blocks of joined*lanes
// rows and lanes columns, which f transposes.
func transposeBlocks[T any](size, lanes, joined int, f func(dst *T, ds int, src *T, ss int, blocks int)) func(dst []T, ds int, src []T, ss, rows, cols int) {
	return func(dst []T, ds int, src []T, ss, rows, cols int) {
		checkTranspose(dst, ds, src, ss, rows, cols)
		whole, wide := rows/(joined*lanes)*joined*lanes, cols/lanes*lanes
		if wide > 0 {
			for i := 0; i < whole; i += joined * lanes {
				for j := 0; j < wide; j += chunk / lanes {
					f(&dst[j*ds+i], size*ds, &src[i*ss+j], size*ss, min(wide-j, chunk/lanes)/lanes)
				}
			}
		}
		transposeRest(dst, ds, src, ss, 0, whole, wide, cols)
		transposeRest(dst, ds, src, ss, whole, rows, 0, cols)
	}
}
