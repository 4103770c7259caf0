package kernel

// accelerateDoubles replaces the products of a portable table of float64 by those of
// level l, which is supported and not Go.
func accelerateDoubles(t *Table[float64], l Level) {
	if l == AVX512 {
		t.Gemm = gemmF64AVX512().gemm
	} else {
		t.Gemm = gemmF64AVX2().gemm
	}
}

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
