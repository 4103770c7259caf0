package kernel

// transposeBlocks returns Transpose by squares of lanes, which f transposes.
func transposeBlocks(lanes int, f transposeFunc[float32]) func(dst []float32, ds int, src []float32, ss, rows, cols int) {
	return func(dst []float32, ds int, src []float32, ss, rows, cols int) {
		checkTranspose(dst, ds, src, ss, rows, cols)
		whole, wide := rows/lanes*lanes, cols/lanes*lanes
		if wide > 0 {
			for i := 0; i < whole; i += lanes {
				for j := 0; j < wide; j += chunk / lanes {
					f(&dst[j*ds+i], 4*ds, &src[i*ss+j], 4*ss, min(wide-j, chunk/lanes)/lanes)
				}
			}
		}
		transposeRest(dst, ds, src, ss, 0, whole, wide, cols)
		transposeRest(dst, ds, src, ss, whole, rows, 0, cols)
	}
}
