package main

import (
	"fmt"
	"math"

	"github.com/ringside-go/ringside/tensor"
)

// The fields of the first word of a call, from the lowest bit.
const (
	opBits      = 12
	argBits     = 13 // arguments
	intBits     = 8  // attributes
	scalarBits  = 8  // a bit for each of the first arguments that is a number
	noGradBits  = 1  // the result has no graph
	signalBits  = 16 // number of a signal
	scalarsFrom = opBits + argBits + intBits
)

// callHead is the first word of a call.
type callHead struct {
	op         tensor.Op
	args, ints int
	scalars    uint64
	noGrad     bool
	signal     int
}

// parseHead takes a word apart.
func parseHead(w uint64) (h callHead) {
	field := func(bits int) uint64 {
		v := w & (1<<bits - 1)
		w >>= bits
		return v
	}
	h.op, h.args, h.ints = tensor.Op(field(opBits)), int(field(argBits)), int(field(intBits))
	h.scalars, h.noGrad, h.signal = field(scalarBits), field(noGradBits) == 1, int(field(signalBits))
	return h
}

// apply records an operation and returns the number of its result; see
// operate.
func (s *session) apply(h callHead, words []int64) (int64, error) {
	t, err := operate(s, h, words)
	if err != nil {
		return 0, err
	}
	return s.put(t, s.in...)
}

// operate records an operation: of a head, its arguments (numbers of tensors, or bits of
// a double) and its attributes. The attributes of random operations come without a
// stream. The operands are in s.in then.
func operate(s *session, h callHead, words []int64) (*tensor.Tensor, error) {
	if len(words) != h.args+h.ints || !h.op.Valid() {
		return nil, fmt.Errorf("%w: a call of %v with %d words, expected an operation and %d arguments and %d attributes", errArgument, h.op, len(words), h.args, h.ints)
	}
	s.args, s.in = s.args[:0], s.in[:0]
	for i, w := range words[:h.args] {
		if i < scalarBits && h.scalars>>i&1 == 1 {
			s.args = append(s.args, tensor.S(math.Float64frombits(uint64(w))))
			continue
		}
		x, err := s.get(w)
		if err != nil {
			return nil, err
		}
		s.args, s.in = append(s.args, tensor.T(x.t)), append(s.in, x)
	}
	s.ints = append(s.ints[:0], words[h.args:]...)
	record := (*session).record
	if h.signal > 0 || h.noGrad {
		record = recordUnder
	}
	t, err := record(s, h, words)
	if err != nil {
		return nil, err
	}
	if s.here {
		s.count(t)
	}
	return t, nil
}

// count adds the work of an operation, whose operands are in s.in, to that recorded.
func (s *session) count(t *tensor.Tensor) {
	n := float64(t.Elems())
	if len(s.in) > 1 && t.Err() == nil {
		switch w := s.in[1].t; w.Rank() {
		case 4: // a convolution, or a product
			n *= float64(w.Elems()) / float64(max(w.Dim(0), 1))
		default:
			n *= float64(max(s.in[0].t.Dim(-1), 1))
		}
	}
	s.work += n
}

// under calls f without graphs and with a signal, as h says.
func (s *session) under(h callHead, f func()) {
	if h.signal > 0 {
		name, run := signals.name(h.signal), f
		f = func() { s.s.Signal(name, run) }
	}
	if h.noGrad {
		s.s.NoGrad(f)
	} else {
		f()
	}
}

// recordUnder is record without graphs and with a signal, as h says.
func recordUnder(s *session, h callHead, words []int64) (t *tensor.Tensor, err error) {
	s.under(h, func() { t, err = s.record(h, words) })
	return t, err
}

// record records the operation in s.args and s.ints; words are the arguments as they
// came.
func (s *session) record(h callHead, words []int64) (*tensor.Tensor, error) {
	switch op := h.op; op {
	case tensor.OpRand, tensor.OpRandN:
		if len(s.ints) == 0 || len(s.args) != 0 || s.ints[0] < 0 || s.ints[0] > math.MaxUint8 {
			return nil, fmt.Errorf("%w: %v of attributes %v, expected a dtype and a shape", errArgument, op, s.ints)
		}
		draw := tensor.Rand
		if op == tensor.OpRandN {
			draw = tensor.RandN
		}
		return draw(s.s, tensor.DType(s.ints[0]), toInts(s.ints[1:])...), nil
	case tensor.OpDropout:
		if len(s.in) != 1 || len(s.args) != 2 {
			return nil, fmt.Errorf("%w: dropout of %d arguments, expected a tensor and a probability", errArgument, len(s.args))
		}
		return s.in[0].t.Dropout(math.Float64frombits(uint64(words[1]))), nil
	}
	return s.s.Apply(h.op, s.ints, s.args...), nil
}

// toInts returns a copy of x.
func toInts(x []int64) []int {
	out := make([]int, len(x))
	for i, n := range x {
		out[i] = int(n)
	}
	return out
}

// upload makes a tensor of a memory image, under the signal of head.
func (s *session) upload(head uint64, dtype int, data []byte, shape []int) (int64, error) {
	if dtype <= 0 || dtype > math.MaxUint8 {
		return 0, fmt.Errorf("%w: dtype %d", errArgument, dtype)
	}
	var t *tensor.Tensor
	s.under(parseHead(head), func() { t = tensor.FromBytes(s.s, tensor.DType(dtype), data, shape...) })
	return s.put(t)
}
