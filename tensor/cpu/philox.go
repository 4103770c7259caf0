package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// philox is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011).
func philox(c [4]uint32, k [2]uint32) [4]uint32 {
	// in variables, which lie in registers as arrays don't
	c0, c1, c2, c3, k0, k1 := c[0], c[1], c[2], c[3], k[0], k[1]
	for range 10 {
		p, q := 0xD2511F53*uint64(c0), 0xCD9E8D57*uint64(c2)
		c0, c1, c2, c3 = uint32(q>>32)^c1^k0, uint32(q), uint32(p>>32)^c3^k1, uint32(p)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
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

// compute returns the words of block n.
func (s *source) compute(n uint64) [4]uint32 {
	return philox([4]uint32{uint32(n), uint32(n >> 32), uint32(s.number), uint32(s.number >> 32)}, s.key)
}

// block is compute, which it keeps.
func (s *source) block(n uint64) *[4]uint32 {
	if !s.have || s.at != n {
		s.at, s.have = n, true
		s.words = s.compute(n)
	}
	return &s.words
}

// unit returns the number in [0, 1) that a word stands for in f32: its upper 24 bits.
// Element i has word i%4 of block i/4.
func unit(w uint32) float64 { return float64(w>>8) * 0x1p-24 }

// f64 returns element i, uniform in [0, 1): 53 bits of a pair of words, the low one
// first, two pairs a block.
func (s *source) f64(i int) float64 {
	w := s.block(uint64(i) / 2)
	j := 2 * (i % 2)
	return float64((uint64(w[j+1])<<32|uint64(w[j]))>>11) * 0x1p-53
}

// random lowers rand and randn. Normal numbers come in pairs by Box and Muller: elements
// 2j and 2j+1 from uniforms 2j and 2j+1, the first moved from [0, 1) to (0, 1].
func random(s *compile.Step) func(r *run) error {
	return byFloat(s, randomF32, randomF64)
}

func byFloat(s *compile.Step, f32, f64 func(s *compile.Step) func(r *run) error) func(r *run) error {
	if s.Out.DType == tensor.F32 {
		return f32(s)
	}
	return f64(s)
}

func randomF32(s *compile.Step) func(r *run) error {
	n := s.Out.Shape.Elems()
	return func(r *run) error {
		src := newSource(r.scalars[s.In[0].Scalar], r.scalars[s.In[1].Scalar], s.Ints[1])
		out := slice[float32](r.bufs[s.Out.Buf])[:n]
		for i, hi := r.share(n, tile); i < hi; i += 4 {
			if i%breath == 0 && r.stopped() {
				break
			}
			w := src.compute(uint64(i) / 4)
			a, b, c, d := float32(unit(w[0])), float32(unit(w[1])), float32(unit(w[2])), float32(unit(w[3]))
			if s.Op == tensor.OpRandN {
				a, b = kernel.Normal(w[0], w[1])
				c, d = kernel.Normal(w[2], w[3])
			}
			if i+4 <= hi {
				*(*[4]float32)(out[i:]) = [4]float32{a, b, c, d}
			} else {
				copy(out[i:hi], []float32{a, b, c})
			}
		}
		return nil
	}
}

func randomF64(s *compile.Step) func(r *run) error {
	n := s.Out.Shape.Elems()
	return func(r *run) error {
		src := newSource(r.scalars[s.In[0].Scalar], r.scalars[s.In[1].Scalar], s.Ints[1])
		out := slice[float64](r.bufs[s.Out.Buf])[:n]
		lo, hi := r.share(n, tile)
		if s.Op == tensor.OpRand {
			for i := lo; i < hi; i++ {
				if i%breath == 0 && r.stopped() {
					break
				}
				out[i] = src.f64(i)
			}
			return nil
		}
		for i := lo; i < hi; i += 2 {
			if i%breath == 0 && r.stopped() {
				break
			}
			radius := math.Sqrt(-2 * math.Log(src.f64(i)+0x1p-53))
			sin, cos := math.Sincos(2 * math.Pi * src.f64(i+1))
			out[i] = radius * cos
			if i+1 < n {
				out[i+1] = radius * sin
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
			if unit(src.block(uint64(i) / 4)[i%4]) >= p {
				y[i] = x[i] * scale
			} else {
				y[i] = 0
			}
		}
		return nil
	}
}
