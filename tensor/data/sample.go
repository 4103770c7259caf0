package data

import (
	"fmt"
	"math/bits"
)

// Shuffle is a permutation of [0, n) that needs no memory: element i is computed.
// It is a Feistel network over the smallest even number of bits that holds n;
// a number that falls outside goes through again until it falls inside, which
// takes less than four rounds on average. Its values may be shared freely.
//
// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002
// (cycle walking).
type Shuffle struct {
	n    uint64
	half uint // bits of one half
	key  uint64
}

// shuffleRounds is well above the four that make a Feistel network over a good round
// function indistinguishable from a random permutation.
const shuffleRounds = 8

// NewShuffle returns the permutation of [0, n) that belongs to key. n is at most 2^62;
// NewShuffle panics above.
func NewShuffle(key, n uint64) Shuffle {
	if n > 1<<62 {
		panic("data: shuffle of more than 2^62 elements")
	}
	half := max((uint(bits.Len64(max(n, 1)-1))+1)/2, 1)
	return Shuffle{n: n, half: half, key: key}
}

// At returns element i. It panics when i is not below n.
func (s Shuffle) At(i uint64) uint64 {
	if i >= s.n {
		panic(fmt.Sprintf("data: element %d of a shuffle of %d", i, s.n))
	}
	mask := uint64(1)<<s.half - 1
	for {
		l, r := i>>s.half, i&mask
		for round := range uint64(shuffleRounds) {
			l, r = r, l^Hash(s.key+round, r)&mask
		}
		if i = l<<s.half | r; i < s.n {
			return i
		}
	}
}

// Epochs draws examples from a set of images: number by number, every image
// once in an epoch, each epoch in another order. An example is a function of seed
// and number alone, so a batch can be asked for in any order, again, or in parts: rank r
// of R with batches of B starts step s at (s*R+r)*B. Safe for concurrent use.
type Epochs struct {
	set   *Images
	seed  uint64
	level [256]float32 // what Normalise makes of each byte: a look-up is twice as fast
}

// NewEpochs returns a sampler of set. The set is not copied.
func NewEpochs(set *Images, seed uint64) *Epochs {
	e := &Epochs{set: set, seed: seed}
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	Normalise(e.level[:], all[:])
	return e
}

// Example returns the position in the set of example number n: that of element
// n mod Count in the order of epoch n / Count.
func (e *Epochs) Example(n uint64) int {
	count := uint64(e.set.Count)
	return int(NewShuffle(Hash(e.seed, n/count), count).At(n % count))
}

// Fill writes len(y) examples, from number start on, into x [len(y), Rows, Cols] and
// y. It returns ErrMismatch when x has another length; it allocates nothing.
// Pixels are normalised as Normalise says.
func (e *Epochs) Fill(start uint64, x []float32, y []int64) error {
	size := e.set.Rows * e.set.Cols
	if len(x) != len(y)*size {
		return fmt.Errorf("%w: %d floats for %d images of %dx%d, expected %d", ErrMismatch, len(x), len(y), e.set.Rows, e.set.Cols, len(y)*size)
	}
	for i := range y {
		p := e.Example(start + uint64(i))
		src := e.set.Pixels[p*size : (p+1)*size]
		dst := x[i*size:][:len(src)]
		for j, b := range src {
			dst[j] = e.level[b]
		}
		y[i] = int64(e.set.Labels[p])
	}
	return nil
}

// Slice writes the images from position first on in the order of the files, for an
// evaluation: len(y) of them, or as many as are left. It returns their number.
func (m *Images) Slice(first int, x []float32, y []int64) (int, error) {
	size := m.Rows * m.Cols
	if first < 0 || len(x) != len(y)*size {
		return 0, fmt.Errorf("%w: from image %d, %d floats for %d images of %dx%d, expected %d", ErrMismatch, first, len(x), len(y), m.Rows, m.Cols, len(y)*size)
	}
	n := max(min(len(y), m.Count-first), 0)
	if n == 0 {
		return 0, nil
	}
	Normalise(x[:n*size], m.Pixels[first*size:(first+n)*size])
	for i := range n {
		y[i] = int64(m.Labels[first+i])
	}
	return n, nil
}

// Normalise is
//
//	for i, p := range src {
//		dst[i] = (float32(p) - 127.5) * (1 / 127.5)
//	}
//
// so that black is -1 and white is 1. It is fixed, and there is nothing a compiler could
// fuse: a model trained here and one evaluated there see the same bits,
// whatever set and machine.
func Normalise(dst []float32, src []byte) {
	dst = dst[:len(src)]
	for i, p := range src {
		dst[i] = (float32(p) - 127.5) * (1 / 127.5)
	}
}

// Crops draws pieces of a text: number by number, each at a random place. A piece is a
// function of seed and number alone, as with Epochs. Safe for concurrent use.
type Crops struct {
	text   []byte
	length int
	key    uint64
}

// NewCrops returns a sampler of pieces of length tokens (bytes), and the one behind.
// The text is not copied. It returns ErrMismatch when the text is not longer
// than length, or length is not positive.
func NewCrops(text []byte, length int, seed uint64) (*Crops, error) {
	if length < 1 || len(text) <= length {
		return nil, fmt.Errorf("%w: pieces of %d tokens of a text of %d, expected 1 to %d", ErrMismatch, length, len(text), len(text)-1)
	}
	return &Crops{text, length, Hash(seed, 0)}, nil
}

// Position returns where in the text piece number n begins.
func (c *Crops) Position(n uint64) int {
	return int(Index(c.key, n, uint64(len(c.text)-c.length)))
}

// FillInt32 writes pieces from number start on into x [pieces, length], and the
// same shifted by one into y: y[i] is the token that follows x[i]. It returns
// ErrMismatch when x and y are not equally long or not a whole number of pieces.
// It allocates nothing.
func (c *Crops) FillInt32(start uint64, x, y []int32) error { return fillCrops(c, start, x, y) }

// FillInt64 is FillInt32 for tokens of 64 bits.
func (c *Crops) FillInt64(start uint64, x, y []int64) error { return fillCrops(c, start, x, y) }

func fillCrops[T Integer](c *Crops, start uint64, x, y []T) error {
	if len(x) != len(y) || len(x)%c.length != 0 {
		return fmt.Errorf("%w: %d tokens and %d targets, expected equal multiples of %d", ErrMismatch, len(x), len(y), c.length)
	}
	for ; len(x) > 0; x, y = x[c.length:], y[c.length:] {
		p := c.Position(start)
		widen(x[:c.length], c.text[p:])
		widen(y[:c.length], c.text[p+1:])
		start++
	}
	return nil
}

func widen[T Integer](dst []T, src []byte) {
	src = src[:len(dst)]
	for i, b := range src {
		dst[i] = T(b)
	}
}
