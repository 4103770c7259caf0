package kernel

// Kernels write packWidth bytes for a row of no more, PackMost for others.
const packWidth = PackMost / 2

// packedRows returns how many of count rows of n elements, stride apart in x, a kernel
// takes that writes width elements for each to dst, and reads so many from x: those with
// so much room. It panics if a row is not in x.
func packedRows(count, dst, x, n, stride, width, reads int) int {
	if count > 0 && (count-1)*stride+min(n, reads) > x {
		panic("kernel: Packs: rows beyond the slice")
	}
	if dst < width || x < reads {
		return 0
	}
	count = min(count, (dst-width)/n+1)
	if stride > 0 {
		count = min(count, (x-reads)/stride+1)
	}
	return count
}

// packBy returns [Packs].Rows by f and wide, which copy rows by packWidth and PackMost
// bytes. Go copies longer rows, and those at the end.
func packBy(f, wide func(rows, n int, dst, x *uint8, stride int)) func(dst, x []uint8, n, stride int) {
	return func(dst, x []uint8, n, stride int) {
		by, width := f, packWidth
		if n > packWidth {
			by, width = wide, PackMost
		}
		if n > PackMost {
			packRowsGo(dst, x, n, stride)
			return
		}
		rows := packedRows(len(dst)/n, len(dst), len(x), n, stride, width, width)
		for rows > 0 {
			count := min(rows, chunk/PackMost)
			by(count, n, &dst[0], &x[0], stride)
			dst, x, rows = dst[count*n:], x[min(count*stride, len(x)):], rows-count
		}
		packRowsGo(dst, x, n, stride)
	}
}

// spreadBy is packBy of the first elements of rows, of size bytes.
func spreadBy[T any](size int, f, wide func(rows, n int, dst, x *T, stride int)) func(dst, x []T, n, stride int) {
	return func(dst, x []T, n, stride int) {
		by, width := f, packWidth
		if n*size > packWidth {
			by, width = wide, PackMost
		}
		if n*size > PackMost {
			spreadGo(dst, x, n, stride)
			return
		}
		rows := packedRows(len(dst)/n, len(dst), len(x), n, stride, width/size, 1)
		for rows > 0 {
			count := min(rows, chunk/PackMost)
			by(count, n*size, &dst[0], &x[0], stride*size)
			dst, x, rows = dst[count*n:], x[min(count*stride, len(x)):], rows-count
		}
		spreadGo(dst, x, n, stride)
	}
}

// evensBy returns one of [Packs].Evens8 and the others by f, which makes lanes elements
// of 2*lanes.
func evensBy[T any](lanes int, f func(n int, dst, x *T)) func(dst, x []T) {
	return func(dst, x []T) {
		for n := min(len(dst), len(x)/2) &^ (lanes - 1); n > 0; {
			count := min(n, chunk)
			f(count, &dst[0], &x[0])
			dst, x, n = dst[count:], x[2*count:], n-count
		}
		evensGo(dst, x)
	}
}
