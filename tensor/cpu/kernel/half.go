package kernel

import "github.com/ringside-go/ringside/tensor/half"

func widenF16Go(dst []float32, x []uint16) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = half.F16(x[i]).Float32()
	}
}

func widenBF16Go(dst []float32, x []uint16) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = half.BF16(x[i]).Float32()
	}
}

func narrowF16Go(dst []uint16, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = uint16(half.ToF16(x[i]))
	}
}

func narrowBF16Go(dst []uint16, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = uint16(half.ToBF16(x[i]))
	}
}
