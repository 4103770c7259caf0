package data

import (
	"fmt"
	"math/bits"
)

// Shuffle is a permutation of [0, n) that needs no memory: each element is computed. It
// is a Feistel network over the smallest even number of bits that holds n. A number
// outside [0, n) passes through the network again until it is inside, which takes less
// than four rounds on average. A Shuffle may be copied and used concurrently.
//
// Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 (cycle
// walking).
type Shuffle struct {
	n    uint64
	half uint // bits of one half
	key  uint64
}

// shuffleRounds is well above four, the number that makes a Feistel network over a good
// round function indistinguishable from a random permutation.
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

// Order draws numbers of examples: each epoch has every example once, in an order of its
// own. A drawn number is a function of the seed and of its place, so batches can be drawn
// in any order, repeatedly, or in parts, as with Epochs. It may be copied and used
// concurrently.
type Order struct {
	count, seed uint64
}

// NewOrder returns an order of count examples, 1 or more. It panics for fewer.
func NewOrder(count int, seed uint64) Order {
	if count < 1 {
		panic(fmt.Sprintf("data: an order of %d examples", count))
	}
	return Order{uint64(count), seed}
}

// At returns the number of the example at place n, which is element n mod count in the
// order of epoch n / count.
func (o Order) At(n uint64) int {
	return int(NewShuffle(Hash(o.seed, n/o.count), o.count).At(n % o.count))
}

// FillRows copies examples from src, which holds as many rows of equal size as o has, to
// dst: as many whole rows as it has room for, those at places start, start+1, ... of the
// order. It returns ErrMismatch if src or dst is not a whole number of rows. It allocates
// nothing.
func FillRows[T any](o Order, start uint64, src, dst []T) error {
	size := len(src) / int(o.count)
	if size == 0 || len(src)%int(o.count) != 0 || len(dst)%size != 0 {
		return fmt.Errorf("%w: %d elements for %d examples, and %d to fill; expected rows of equal size", ErrMismatch, len(src), o.count, len(dst))
	}
	for n := start; len(dst) > 0; n++ {
		row := o.At(n)
		copy(dst[:size], src[row*size:])
		dst = dst[size:]
	}
	return nil
}

// Epochs draws examples from a set of images: each epoch has every image once, in an
// order of its own. An example is a function of the seed and its number, so batches can
// be drawn in any order, repeatedly, or in parts: rank r of R with batches of B starts
// step s at (s*R+r)*B. It is safe for concurrent use.
type Epochs struct {
	set   *Images
	seed  uint64
	level [256]float32 // Normalise of each byte; a table is faster
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

// Example returns the position in the set of example number n, which is element n mod
// Count in the order of epoch n / Count.
func (e *Epochs) Example(n uint64) int {
	return Order{uint64(e.set.Count), e.seed}.At(n)
}

// Fill writes len(y) examples, beginning with number start, into x [len(y), Rows, Cols]
// and y, with pixels normalised by Normalise. It returns ErrMismatch if x has another
// length. It allocates nothing.
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

// Slice writes up to len(y) images, beginning at position first, in the order of the
// files, for an evaluation. It returns their number, which is less at the end of the set.
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
// so that black is -1 and white is 1. A compiler cannot fuse these operations, so every
// machine computes the same bits.
func Normalise(dst []float32, src []byte) {
	dst = dst[:len(src)]
	for i, p := range src {
		dst[i] = (float32(p) - 127.5) * (1 / 127.5)
	}
}

// Crops draws pieces of a text, each at a random place. A piece is a function of the seed
// and its number, as with Epochs. It is safe for concurrent use.
type Crops struct {
	text   []byte
	length int
	key    uint64
}

// NewCrops returns a sampler of pieces of length tokens (bytes), each with the token that
// follows. The text is not copied. It returns ErrMismatch if the text is not longer than
// length, or length is not positive.
func NewCrops(text []byte, length int, seed uint64) (*Crops, error) {
	if length < 1 || len(text) <= length {
		return nil, fmt.Errorf("%w: pieces of %d tokens of a text of %d, expected 1 to %d", ErrMismatch, length, len(text), len(text)-1)
	}
	return &Crops{text, length, Hash(seed, 0)}, nil
}

// Position returns the position in the text where piece number n begins.
func (c *Crops) Position(n uint64) int {
	return int(Index(c.key, n, uint64(len(c.text)-c.length)))
}

// FillCrops writes pieces, beginning with number start, into x [pieces, length], and the
// same shifted by one into y: y[i] is the token that follows x[i]. It returns ErrMismatch
// if x and y differ in length or are not a whole number of pieces. It allocates nothing.
func FillCrops[T Integer](c *Crops, start uint64, x, y []T) error {
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
