package kernel

// by returns the fold by assembly, whose strides are in bytes, of elements of size bytes.
// f does what the assembly does not take: rows of less than least elements or more than
// sumChunk, and columns after the last whole unit.
func (f FoldFrom[S, T]) by(size, least, unit int, rows func(rows, n int, x *S, stride int, dst *T), columns func(rows, n int, x *S, stride int, dst *T, more int)) FoldFrom[S, T] {
	return FoldFrom[S, T]{
		Least: least,
		Rows: func(dst []T, x []S, stride, n int) {
			if n < least || n > sumChunk {
				f.Rows(dst, x, stride, n)
				return
			}
			for i := 0; i < len(dst); {
				count := min(len(dst)-i, max(chunk/n, 1))
				block := x[i*stride:]
				_ = block[(count-1)*stride+n-1]
				rows(count, n, &block[0], size*stride, &dst[i])
				i += count
			}
		},
		Columns: func(dst []T, x []S, stride, n int, more bool) {
			whole := len(dst) / unit * unit
			for i := 0; i < n && whole > 0; {
				count := min(n-i, max(chunk/whole, 1))
				block, add := x[i*stride:], 0
				if more || i > 0 {
					add = 1
				}
				_ = block[(count-1)*stride+whole-1]
				columns(count, whole, &block[0], size*stride, &dst[0], add)
				i += count
			}
			if whole < len(dst) {
				f.Columns(dst[whole:], x[whole:], stride, n, more)
			}
		},
	}
}
