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

// Rand is uniform in [0, 1). Random numbers are a function of the session's seed, of how many random operations it
// recorded before, and of the element's index: the same on every engine, and however the work is split.
func Rand(s *Session, d DType, shape ...int) *Tensor { return s.random(OpRand, d, shape) }

// RandN is normal with mean 0 and deviation 1, as Rand otherwise.
func RandN(s *Session, d DType, shape ...int) *Tensor { return s.random(OpRandN, d, shape) }

func (s *Session) random(op Op, d DType, shape []int) *Tensor {
	if err := s.enter(op.String()); err != nil {
		return poisoned(s, err)
	}
	defer s.leave()
	s.room()
	off := s.offset
	s.offset++
	return s.apply(op, leafInts(d, []int64{off}, shape), []Arg{S(float64(s.seed)), S(float64(s.counter))})
}

// Dropout is t with a part p of its elements zeroed and the rest divided by 1-p, in training; it is for callers to
// leave it out in evaluation. Its mask follows Rand's rule.
func (t *Tensor) Dropout(p float64) *Tensor {
	s := t.v.s
	if err := s.enter("dropout"); err != nil {
		return poisoned(s, err)
	}
	defer s.leave()
	if !(p >= 0 && p < 1) {
		return poisoned(s, s.fail(&OpError{Op: "dropout", Inputs: t.String(), Site: callSite(), Err: errProbability}))
	}
	s.room()
	off := s.offset
	s.offset++
	return s.apply(OpDropout, []int64{off}, []Arg{T(t), S(p), S(float64(s.seed)), S(float64(s.counter))})
}

// Seed restarts the session's random numbers. Seeds are below 2^53.
func (s *Session) Seed(seed uint64) {
	s.seed, s.counter, s.offset = seed&(1<<53-1), 0, 0
}

// Streams is how many random operations the session recorded since its seed: the number that the next one goes by.
func (s *Session) Streams() uint64 { return s.counter + uint64(s.offset) }

// AtStream runs f as if n random operations had been recorded before it, so that its random numbers are those of what was
// recorded there. Afterwards the session goes on as if f had not been.
func (s *Session) AtStream(n uint64, f func()) {
	counter, offset := s.counter, s.offset
	s.counter, s.offset = n, 0
	defer func() { s.counter, s.offset = counter, offset }()
	f()
}
