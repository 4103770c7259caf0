package kernel

import "github.com/ringside-go/ringside/collective/element"

func widenF16Go(dst []float32, x []uint16) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = element.Float16(x[i]).Float32()
	}
}

func widenBF16Go(dst []float32, x []uint16) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = element.BFloat16(x[i]).Float32()
	}
}

func narrowF16Go(dst []uint16, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = uint16(element.ToFloat16(x[i]))
	}
}

func narrowBF16Go(dst []uint16, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = uint16(element.ToBFloat16(x[i]))
	}
}
