package tensor

// streams is the state of a session's random numbers. Each random operation takes the
// next stream. A program holds the number of its first stream as a scalar, and each
// operation the distance to it as an attribute, so that equal steps record equal
// programs.
type streams struct {
	seed    uint64
	counter uint64 // streams taken before the program being recorded
	offset  int64  // streams taken in it
}

// first returns the part of counter that a program holds as a scalar, which is a float64:
// all of it below 2^53. The rest goes with the distances.
func (r *streams) first() uint64 {
	if r.counter < 1<<53 {
		return r.counter
	}
	return r.counter &^ (1<<11 - 1)
}

// take returns the next stream's distance from first.
func (r *streams) take() int64 {
	r.offset++
	return r.offset - 1 + int64(r.counter-r.first())
}

// nextProgram begins another program.
func (r *streams) nextProgram() {
	r.counter += uint64(r.offset)
	r.offset = 0
}

func (r *streams) args() []Arg { return []Arg{S(float64(r.seed)), S(float64(r.first()))} }

// Rand returns numbers that are uniform in [0, 1). They are a function of the session's
// seed, the number of random operations recorded before, and the element's index. So they
// are the same on every engine, and however the work is divided. Those of f16 and bf16
// are multiples of 2^-11 and 2^-8, cut from those of f32: rounded to the nearest number
// of the type the largest would be 1.
func Rand(s *Session, d DType, shape ...int) *Tensor {
	steps := map[DType]float64{F16: 1 << 11, BF16: 1 << 8}[d]
	if steps == 0 {
		return s.draw(OpRand, d, shape)
	}
	return s.draw(OpRand, F32, shape).MulS(steps).Floor().MulS(1 / steps).Cast(d)
}

// RandN returns normal numbers with mean 0 and deviation 1; see Rand.
func RandN(s *Session, d DType, shape ...int) *Tensor { return s.draw(OpRandN, d, shape) }

func (s *Session) draw(op Op, d DType, shape []int) *Tensor {
	if err := s.enter(op.String()); err != nil {
		return poisoned(s, err)
	}
	defer s.leave()
	s.room() // before the stream is taken: a flush moves counter
	return s.apply(op, leafInts(make([]int64, 0, leafRoom), d, []int64{s.random.take()}, shape), s.random.args())
}

// Dropout returns t with each element zeroed with probability p and the others divided by
// 1-p. It is for training; in evaluation the caller leaves it out. The mask is random as
// the numbers of Rand are.
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
	return s.apply(OpDropout, []int64{s.random.take()}, append([]Arg{T(t), S(p)}, s.random.args()...))
}

// Seed restarts the session's random numbers. Seeds are below 2^53.
func (s *Session) Seed(seed uint64) { s.random = streams{seed: seed & (1<<53 - 1)} }

// Streams returns the number of random operations recorded since the seed, which is the
// number of the next stream.
func (s *Session) Streams() uint64 { return s.random.counter + uint64(s.random.offset) }

// AtStream runs f as if n random operations had been recorded before, so that its random
// numbers are those of that place. Afterwards the session goes on as if f had not run.
func (s *Session) AtStream(n uint64, f func()) {
	before := s.random
	s.random.counter, s.random.offset = n, 0
	defer func() { s.random = before }()
	f()
}

// Random returns the state of the session's random numbers, for SetRandom. Operations
// that are recorded but not flushed count.
func (s *Session) Random() (seed, counter uint64) { return s.random.seed, s.Streams() }

// SetRandom restores a state that Random returned.
func (s *Session) SetRandom(seed, counter uint64) {
	s.Seed(seed)
	s.random.counter = counter
}
