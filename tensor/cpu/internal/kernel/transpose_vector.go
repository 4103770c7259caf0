//go:build amd64 || arm64

package kernel

// transposeBlocks returns Transpose of elements of size bytes by blocks of joined*lanes
// rows and lanes columns, which f transposes. narrow, unless it is nil, transposes blocks
// of fewer columns, of which it reads lanes, and flat those of fewer rows.
func transposeBlocks[T any](size, lanes, joined int, f func(dst *T, ds int, src *T, ss int, blocks int), narrow, flat func(dst *T, ds int, src *T, ss int, blocks, count int)) func(dst []T, ds int, src []T, ss, rows, cols int) {
	side := joined * lanes // of a block, in rows
	return func(dst []T, ds int, src []T, ss, rows, cols int) {
		checkTranspose(dst, ds, src, ss, rows, cols)
		whole, wide := rows/side*side, cols/lanes*lanes
		for i := 0; i < whole && wide > 0; i += side {
			for j := 0; j < wide; j += chunk / lanes {
				f(&dst[j*ds+i], size*ds, &src[i*ss+j], size*ss, min(wide-j, chunk/lanes)/lanes)
			}
		}
		done := 0 // rows of the narrow columns
		if narrow != nil && wide < cols && whole > 0 && len(src) >= wide+lanes {
			room := whole
			if ss > 0 {
				room = min(whole, (len(src)-wide-lanes)/ss+1) // rows with so much to read
			}
			for room = room / side * side; done < room; {
				count := min(room-done, max(chunk/side/lanes, 1)*side)
				narrow(&dst[wide*ds+done], size*ds, &src[done*ss+wide], size*ss, count/side, cols-wide)
				done += count
			}
		}
		transposeRest(dst, ds, src, ss, done, whole, wide, cols)
		at := 0 // columns of the rows below
		if flat != nil && whole < rows {
			for at < wide {
				count := min(wide-at, chunk/lanes)
				flat(&dst[at*ds+whole], size*ds, &src[whole*ss+at], size*ss, count/lanes, rows-whole)
				at += count
			}
		}
		transposeRest(dst, ds, src, ss, whole, rows, at, cols)
	}
}
