package kernel

import "github.com/ringside-go/ringside/collective/element"

func widenF16Go[T Float](dst []T, x []uint16) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = T(element.Float16(x[i]).Float32())
	}
}

func widenBF16Go[T Float](dst []T, x []uint16) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = T(element.BFloat16(x[i]).Float32())
	}
}

func narrowF16Go[T Float](dst []uint16, x []T) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = uint16(element.ToFloat16(float32(x[i])))
	}
}

func narrowBF16Go[T Float](dst []uint16, x []T) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = uint16(element.ToBFloat16(float32(x[i])))
	}
}
