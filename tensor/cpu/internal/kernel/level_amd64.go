package kernel

// accelerate replaces the kernels of a portable table for which level l, which is
// supported, has assembly. The others stay: portableOnly of
// level_test.go lists them.
func accelerate(t *Table[float32], l Level) {
	t.Level = l
	if l == AVX512 {
		accelerateAVX512(t)
	} else {
		accelerateAVX2(t)
	}
}
