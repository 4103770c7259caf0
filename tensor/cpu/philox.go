package cpu

import (
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// source generates the numbers of one random operation. The seed is the key, the
// operation's number the upper half of the counter, the place of an element's words the
// lower half.
type source struct {
	key    [2]uint32
	number uint64
}

func newSource(seed, counter float64, offset int64) source {
	s := uint64(seed)
	return source{key: [2]uint32{uint32(s), uint32(s >> 32)}, number: uint64(counter) + uint64(offset)}
}

// from returns n words from word i on, and those that fill the last block. i is a
// multiple of 4, n at most two tiles. They are in the run's first scratch row.
func (s *source) from(r *run, i, n int) []uint32 {
	words := scratchRow[uint32](r, 0, 2*tile)[:(n+3)&^3]
	r.table.Philox(words, uint64(i)/4, s.number, s.key)
	return words
}

// random lowers rand and randn. Element i of f32 has word i: its upper 24 bits are the
// number in [0, 1). Of f64 it has the upper 53 bits of words 2i and 2i+1, the low one
// first. Normal numbers come in pairs by Box and Muller: elements
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
		for lo, hi := r.share(n, tile); lo < hi && !r.stopped(); lo += tile {
			piece := out[lo:min(lo+tile, hi)]
			words := src.from(r, lo, len(piece))
			if s.Op == tensor.OpRand {
				r.table.Units(piece, words)
				continue
			}
			r.table.Normals(piece, words)
		}
		return nil
	}
}

func randomF64(s *compile.Step) func(r *run) error {
	n := s.Out.Shape.Elems()
	return func(r *run) error {
		src := newSource(r.scalars[s.In[0].Scalar], r.scalars[s.In[1].Scalar], s.Ints[1])
		out := slice[float64](r.bufs[s.Out.Buf])[:n]
		for lo, hi := r.share(n, tile); lo < hi && !r.stopped(); lo += tile {
			piece := out[lo:min(lo+tile, hi)]
			words := src.from(r, 2*lo, 2*len(piece))
			for i := range piece {
				piece[i] = fraction(words[2*i], words[2*i+1])
			}
			for ; s.Op == tensor.OpRandN && len(piece) > 0; piece, words = piece[min(2, len(piece)):], words[4:] {
				normal(piece, words)
			}
		}
		return nil
	}
}

// normal makes a pair of normal numbers, or the first of one, of two uniform ones: x[0],
// and that of words 2 and 3.
func normal(x []float64, words []uint32) {
	radius := math.Sqrt(-2 * math.Log(x[0]+0x1p-53))
	sin, cos := math.Sincos(2 * math.Pi * fraction(words[2], words[3]))
	x[0] = radius * cos
	if len(x) > 1 {
		x[1] = radius * sin
	}
}

// fraction returns the upper 53 bits of two words as a number in [0, 1).
func fraction(low, high uint32) float64 {
	return float64((uint64(high)<<32|uint64(low))>>11) * 0x1p-53
}

// dropout keeps an element if its uniform number is p or more. The number is rand's f32
// one for all dtypes, so that the mask doesn't depend on them.
func (lw *lowerer) dropout(s *compile.Step) func(r *run) error {
	if s.Out.DType == tensor.F32 {
		return dropoutOf(s, lw.table)
	}
	return dropoutOf(s, lw.table64)
}

func dropoutOf[T float](s *compile.Step, k *kernel.Table[T]) func(r *run) error {
	n := s.Out.Shape.Elems()
	return func(r *run) error {
		p := r.scalars[s.In[1].Scalar]
		src := newSource(r.scalars[s.In[2].Scalar], r.scalars[s.In[3].Scalar], s.Ints[0])
		scale := T(1 / (1 - p))
		// the first number of 24 bits that is p or more
		least := T(math.Ceil(p*0x1p24) * 0x1p-24)
		x, y := buf[T](r, &s.In[0]), buf[T](r, &s.Out)
		units := scratchRow[T](r, 1, tile)
		for lo, hi := r.share(n, tile); lo < hi && !r.stopped(); lo += tile {
			m := min(tile, hi-lo)
			k.Units(units[:m], src.from(r, lo, m))
			k.Keep(y[lo:lo+m], x[lo:lo+m], units[:m], least, scale)
		}
		return nil
	}
}
