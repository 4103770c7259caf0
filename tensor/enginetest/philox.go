package enginetest

import (
	"math"
	"math/bits"

	"github.com/ringside-go/ringside/tensor"
)

// philox is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", 2011): four words that are a function of a counter and a key alone.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	c, k := counter, key
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0}
		k[0] += 0x9E3779B9
		k[1] += 0xBB67AE85
	}
	return c
}

// stream is one random operation's source: the seed is the key, and the operation's
// number is the upper half of the counter.
type stream struct{ seed, number uint64 }

// block returns the n-th four words.
func (s stream) block(n uint64) [4]uint32 {
	return philox([4]uint32{uint32(n), uint32(n >> 32), uint32(s.number), uint32(s.number >> 32)},
		[2]uint32{uint32(s.seed), uint32(s.seed >> 32)})
}

// uniform32 returns element i in [0, 1) with 24 bits: word i%4 of block i/4.
func (s stream) uniform32(i int) float64 {
	w := s.block(uint64(i) / 4)
	return float64(w[i%4]>>8) * 0x1p-24
}

// uniform64 returns element i in [0, 1) with 53 bits: of block i/2 the first two words or
// the last two, the low one first.
func (s stream) uniform64(i int) float64 {
	w := s.block(uint64(i) / 2)
	lo, hi := w[2*(i%2)], w[2*(i%2)+1]
	return float64((uint64(hi)<<32|uint64(lo))>>11) * 0x1p-53
}

func (s stream) uniform(d tensor.DType, i int) float64 {
	if d == tensor.F32 {
		return s.uniform32(i)
	}
	return s.uniform64(i)
}

// normal returns element i by Box and Muller's transform: elements 2j and 2j+1 are the
// cosine and the sine of uniforms 2j and 2j+1, the first of which is moved from [0, 1) to
// (0, 1].
func (s stream) normal(d tensor.DType, i int) float64 {
	step := 0x1p-24
	if d == tensor.F64 {
		step = 0x1p-53
	}
	j := i &^ 1
	r := math.Sqrt(-2 * math.Log(s.uniform(d, j)+step))
	sin, cos := math.Sincos(2 * math.Pi * s.uniform(d, j+1))
	if i == j {
		return r * cos
	}
	return r * sin
}
