package cpu

import (
	"math"
	"math/bits"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// philox is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011).
func philox(c [4]uint32, k [2]uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, c[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	return c
}

// source generates the numbers of one random operation. The seed is the key, the
// operation's number the upper half of the counter, the place of an element's words the
// lower half.
type source struct {
	key    [2]uint32
	number uint64
	at     uint64
	have   bool
	words  [4]uint32
}

func newSource(seed, counter float64, offset int64) source {
	s := uint64(seed)
	return source{key: [2]uint32{uint32(s), uint32(s >> 32)}, number: uint64(counter) + uint64(offset)}
}

func (s *source) block(n uint64) *[4]uint32 {
	if !s.have || s.at != n {
		s.at, s.have = n, true
		s.words = philox([4]uint32{uint32(n), uint32(n >> 32), uint32(s.number), uint32(s.number >> 32)}, s.key)
	}
	return &s.words
}

// f32 returns element i, uniform in [0, 1): the upper 24 bits of word i%4 of block i/4.
func (s *source) f32(i int) float64 {
	return float64(s.block(uint64(i) / 4)[i%4]>>8) * 0x1p-24
}

// f64 returns element i, uniform in [0, 1): 53 bits of a pair of words, the low one
// first, two pairs a block.
func (s *source) f64(i int) float64 {
	w := s.block(uint64(i) / 2)
	j := 2 * (i % 2)
	return float64((uint64(w[j+1])<<32|uint64(w[j]))>>11) * 0x1p-53
}

// uniform returns element i for a dtype.
func (s *source) uniform(d tensor.DType, i int) float64 {
	if d == tensor.F32 {
		return s.f32(i)
	}
	return s.f64(i)
}

// random lowers rand and randn. Normal numbers come in pairs by Box and Muller: elements
// 2j and 2j+1 from uniforms 2j and 2j+1, the first moved from [0, 1) to (0, 1].
func random(s *compile.Step) func(r *run) error {
	return byFloat(s, randomOf[float32], randomOf[float64])
}

func byFloat(s *compile.Step, f32, f64 func(s *compile.Step) func(r *run) error) func(r *run) error {
	if s.Out.DType == tensor.F32 {
		return f32(s)
	}
	return f64(s)
}

func randomOf[T float](s *compile.Step) func(r *run) error {
	n, d := s.Out.Shape.Elems(), s.Out.DType
	step := 0x1p-24 // between two uniform numbers
	if d == tensor.F64 {
		step = 0x1p-53
	}
	return func(r *run) error {
		src := newSource(r.scalars[s.In[0].Scalar], r.scalars[s.In[1].Scalar], s.Ints[1])
		out := slice[T](r.bufs[s.Out.Buf])[:n]
		lo, hi := r.share(n, tile)
		if s.Op == tensor.OpRand {
			for i := lo; i < hi; i++ {
				if i%breath == 0 && r.stopped() {
					break
				}
				out[i] = T(src.uniform(d, i))
			}
			return nil
		}
		for i := lo; i < hi; i += 2 {
			if i%breath == 0 && r.stopped() {
				break
			}
			radius := math.Sqrt(-2 * math.Log(src.uniform(d, i)+step))
			sin, cos := math.Sincos(2 * math.Pi * src.uniform(d, i+1))
			out[i] = T(radius * cos)
			if i+1 < n {
				out[i+1] = T(radius * sin)
			}
		}
		return nil
	}
}

// dropout keeps an element if its uniform number is p or more. The number is rand's f32
// one for all dtypes, so that the mask doesn't depend on them.
func dropout(s *compile.Step) func(r *run) error {
	return byFloat(s, dropoutOf[float32], dropoutOf[float64])
}

func dropoutOf[T float](s *compile.Step) func(r *run) error {
	n := s.Out.Shape.Elems()
	return func(r *run) error {
		p := r.scalars[s.In[1].Scalar]
		src := newSource(r.scalars[s.In[2].Scalar], r.scalars[s.In[3].Scalar], s.Ints[0])
		scale := T(1 / (1 - p))
		x, y := buf[T](r, &s.In[0]), buf[T](r, &s.Out)
		lo, hi := r.share(n, tile)
		for i := lo; i < hi; i++ {
			if i%breath == 0 && r.stopped() {
				break
			}
			if src.f32(i) >= p {
				y[i] = x[i] * scale
			} else {
				y[i] = 0
			}
		}
		return nil
	}
}
