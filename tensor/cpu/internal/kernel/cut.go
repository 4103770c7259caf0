package kernel

import "math"

// CutI64 returns x cut toward zero and clamped to the range of an int64; 0 of NaN.
func CutI64(x float64) int64 {
	switch {
	case x != x:
		return 0
	case x >= math.MaxInt64:
		return math.MaxInt64
	case x <= math.MinInt64:
		return math.MinInt64
	}
	return int64(x)
}

// CutI32 is CutI64 of an int32.
func CutI32(x float64) int32 { return int32(min(max(CutI64(x), math.MinInt32), math.MaxInt32)) }

// Numbers of most programs are within 2³¹.

func toI64Go[T Float](dst []int64, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		if v > math.MinInt32 && v < math.MaxInt32 {
			dst[i] = int64(v)
		} else {
			dst[i] = CutI64(float64(v))
		}
	}
}

func toI32Go[T Float](dst []int32, x []T) {
	x = x[:len(dst)]
	for i, v := range x {
		if v > math.MinInt32 && v < math.MaxInt32 {
			dst[i] = int32(v)
		} else {
			dst[i] = CutI32(float64(v))
		}
	}
}

func doubleGo(dst []float64, x []float32) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = float64(v)
	}
}

func singleGo(dst []float32, x []float64) {
	x = x[:len(dst)]
	for i, v := range x {
		dst[i] = float32(v)
	}
}
