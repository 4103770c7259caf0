package kernel

// accelerate replaces the kernels of a portable table for which level l, which is
// supported, has assembly. The others stay: Pow, Log, Sin and Cos.
func accelerate(t *Table[float32], l Level) {
	t.Level = l
	if l == AVX512 {
		accelerateAVX512(t)
	} else {
		accelerateAVX2(t)
	}
}
