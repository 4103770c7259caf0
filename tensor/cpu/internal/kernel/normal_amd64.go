package kernel

// normalsBy returns Normals by f, which takes groups of so many pairs. Go does the rest.
func normalsBy(group int, f func(n int, dst *float32, words *uint32, inverse, log *float64)) func(dst []float32, words []uint32) {
	return func(dst []float32, words []uint32) {
		for len(dst) >= 2*group {
			n := min(len(dst), chunk) / (2 * group) * group
			_ = words[2*n-1]
			f(n, &dst[0], &words[0], &powerTables.inverse[0], &powerTables.log[0])
			dst, words = dst[2*n:], words[2*n:]
		}
		normalsGo(dst, words)
	}
}
