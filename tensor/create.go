package tensor

// leafInts are the attributes of an operation that makes a value: dtype, what goes before the shape, the shape.
func leafInts(d DType, extra []int64, shape []int) []int64 {
	ints := make([]int64, 0, 2+len(shape))
	ints = append(append(ints, int64(d)), extra...)
	for _, n := range shape {
		ints = append(ints, int64(n))
	}
	return ints
}

// Full is a tensor of one value.
func Full(s *Session, d DType, x float64, shape ...int) *Tensor {
	return s.Apply(OpFull, leafInts(d, nil, shape), S(x))
}

// Zeros is a tensor of zeros.
func Zeros(s *Session, d DType, shape ...int) *Tensor { return Full(s, d, 0, shape...) }

// Ones is a tensor of ones.
func Ones(s *Session, d DType, shape ...int) *Tensor { return Full(s, d, 1, shape...) }

// Arange is start, start+step, ... of n elements.
func Arange(s *Session, d DType, start, step float64, n int) *Tensor {
	return s.Apply(OpArange, leafInts(d, nil, []int{n}), S(start), S(step))
}
