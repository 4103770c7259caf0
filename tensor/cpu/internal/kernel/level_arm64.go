package kernel

// accelerate replaces the kernels of a portable table for which NEON has assembly. The
// others stay: portableOnly of level_test.go lists them.
func accelerate(t *Table[float32], l Level) {
	t.Level = l
	accelerateNEON(t)
}

// accelerateDoubles is accelerate of float64.
func accelerateDoubles(t *Table[float64], _ Level) { accelerateF64NEON(t) }

// There is no assembly for these.
func acceleratePlain(*Plain, Level) {}

func accelerateProducts(*IntProducts, Level) {}

func accelerateFolds(*Folds, Level) {}
