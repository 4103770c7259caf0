package tensor

// leafInts appends the attributes of an operation that makes a tensor to ints: dtype,
// extra, shape.
func leafInts(ints []int64, d DType, extra []int64, shape []int) []int64 {
	ints = append(append(ints, int64(d)), extra...)
	for _, n := range shape {
		ints = append(ints, int64(n))
	}
	return ints
}

// leafRoom is the number of attributes of such an operation, at most.
const leafRoom = 2 + MaxRank

// Full returns a tensor whose elements are all x.
func Full(s *Session, d DType, x float64, shape ...int) *Tensor {
	return s.Apply(OpFull, leafInts(make([]int64, 0, leafRoom), d, nil, shape), S(x))
}

// Zeros returns a tensor of zeros.
func Zeros(s *Session, d DType, shape ...int) *Tensor { return Full(s, d, 0, shape...) }

// Ones returns a tensor of ones.
func Ones(s *Session, d DType, shape ...int) *Tensor { return Full(s, d, 1, shape...) }

// Arange returns the n elements start, start+step, ...
func Arange(s *Session, d DType, start, step float64, n int) *Tensor {
	return s.Apply(OpArange, leafInts(make([]int64, 0, leafRoom), d, nil, []int{n}), S(start), S(step))
}
