package kernel

// widenBy and narrowBy cut what is long, as unary does, and leave the rest of the last vector to Go.
func widenBy(lanes int, f func(n int, dst *float32, x *uint16), rest func(dst []float32, x []uint16)) func(dst []float32, x []uint16) {
	return func(dst []float32, x []uint16) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0])
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x)
	}
}

func narrowBy(lanes int, f func(n int, dst *uint16, x *float32), rest func(dst []uint16, x []float32)) func(dst []uint16, x []float32) {
	return func(dst []uint16, x []float32) {
		x = x[:len(dst)]
		for len(dst) >= lanes {
			n := min(len(dst), chunk) &^ (lanes - 1)
			f(n, &dst[0], &x[0])
			dst, x = dst[n:], x[n:]
		}
		rest(dst, x)
	}
}

func halvesAVX512(t *Table) {
	t.WidenF16, t.WidenBF16 = widenBy(16, widenF16AVX512, widenF16Go), widenBy(16, widenBF16AVX512, widenBF16Go)
	t.NarrowF16, t.NarrowBF16 = narrowBy(16, narrowF16AVX512, narrowF16Go), narrowBy(16, narrowBF16AVX512, narrowBF16Go)
}

// halvesAVX2 also needs F16C, which every processor with AVX2 and BMI2 has.
func halvesAVX2(t *Table) {
	t.WidenF16, t.WidenBF16 = widenBy(8, widenF16AVX2, widenF16Go), widenBy(8, widenBF16AVX2, widenBF16Go)
	t.NarrowF16, t.NarrowBF16 = narrowBy(8, narrowF16AVX2, narrowF16Go), narrowBy(8, narrowBF16AVX2, narrowBF16Go)
}
