package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/ringside-go/ringside/collective/element"
)

// Kind says which of the collective operations a call is.
type Kind uint8

// The kinds. Their numbers travel between ranks: append, never reorder.
const (
	NoKind Kind = iota
	AllReduce
	Reduce
	ReduceScatter
	AllGather
	Broadcast
	Scatter
	Gather
	AllToAll
	Barrier
	Send
	Recv

	kinds
)

// Kinds is how many kinds there are, and NoKind.
const Kinds = int(kinds)

var kindNames = [kinds]string{
	"no call", "all-reduce", "reduce", "reduce-scatter", "all-gather", "broadcast", "scatter",
	"gather", "all-to-all", "barrier", "send", "recv",
}

// Valid reports whether k is one of the constants.
func (k Kind) Valid() bool { return k < kinds }

// Paired reports whether the call is between two ranks only.
func (k Kind) Paired() bool { return k == Send || k == Recv }

// Folds reports whether the call reduces elements of several ranks to one.
func (k Kind) Folds() bool { return k == AllReduce || k == Reduce || k == ReduceScatter }

// String returns the name in lower case, as in "all-reduce".
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// CallBytes is the size of an encoded Call.
const CallBytes = 40

// Call is what every rank of one collective operation must say alike. Ranks compare the
// 64 bits of Hash where they meet. They exchange the whole Call only for the text of an
// error.
//
//	byte  0        8    9  10    11 12     16      24       32      40
//	     | Seq     |Kind|Op|DType| 0| Root  | Count | Counts | Scale |      little endian
type Call struct {
	// Seq counts the calls of a group, from 1; 0 is the barrier of Init. Sends and
	// receives count per pair and direction.
	Seq   uint64
	Kind  Kind
	Op    element.Reduction
	DType element.DType

	// Root is the special rank of Reduce, Broadcast, Scatter and Gather, else 0.
	Root int32

	// Count is the number of elements of the operation's longest buffer. It is 0 for an
	// AllToAll with uneven counts, which differ from rank to rank.
	Count int64

	// Counts is HashCounts of uneven counts that all ranks know, else 0.
	Counts uint64

	// Scale is what the result is multiplied by before it is rounded: 1/n for a mean. 0
	// is 1.
	Scale float64
}

// Factor returns Scale, or 1 where that is 0.
func (c *Call) Factor() float64 {
	if c.Scale == 0 {
		return 1
	}
	return c.Scale
}

// Append appends the 40 bytes of c.
func (c Call) Append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, c.Seq)
	b = append(b, byte(c.Kind), byte(c.Op), byte(c.DType), 0)
	b = le.AppendUint32(b, uint32(c.Root))
	b = le.AppendUint64(b, uint64(c.Count))
	b = le.AppendUint64(b, c.Counts)
	return le.AppendUint64(b, math.Float64bits(c.Scale))
}

// Encode writes c into b.
func (c Call) Encode(b *[CallBytes]byte) { c.Append(b[:0]) }

// DecodeCall reads what Encode wrote. b may hold any bytes: the result is safe to print,
// and the error is ErrBadCall.
func DecodeCall(b []byte) (Call, error) {
	if len(b) != CallBytes {
		return Call{}, fmt.Errorf("%w: %d bytes, expected %d", ErrBadCall, len(b), CallBytes)
	}
	le := binary.LittleEndian
	c := Call{
		Seq: le.Uint64(b), Kind: Kind(b[8]), Op: element.Reduction(b[9]), DType: element.DType(b[10]),
		Root: int32(le.Uint32(b[12:])), Count: int64(le.Uint64(b[16:])), Counts: le.Uint64(b[24:]),
		Scale: math.Float64frombits(le.Uint64(b[32:])),
	}
	known := c.DType == element.Invalid || c.DType.Valid()
	switch {
	case !c.Kind.Valid() || !c.Op.Valid() || !known || b[11] != 0:
		return Call{}, fmt.Errorf("%w: kind %d, op %d, dtype %d, reserved %d",
			ErrBadCall, b[8], b[9], b[10], b[11])
	case c.Count < 0 || c.Root < 0:
		return Call{}, fmt.Errorf("%w: count %d, root %d, expected nothing negative",
			ErrBadCall, c.Count, c.Root)
	}
	return c, nil
}

// mix spreads x over 64 bits: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast
// splittable pseudorandom number generators, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

const golden = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio

// Hash returns 64 bits, never 0. Two calls with the same Hash are taken for the same
// call. A Recv has the Hash of the Send that it meets.
func (c Call) Hash() uint64 {
	kind := c.Kind
	if kind == Recv {
		kind = Send
	}
	what := uint64(kind) | uint64(c.Op)<<8 | uint64(c.DType)<<16 | uint64(uint32(c.Root))<<32
	h := mix(c.Seq + golden)
	h = mix(h ^ what + golden)
	h = mix(h ^ uint64(c.Count) + golden)
	h = mix(h ^ c.Counts + golden)
	h = mix(h ^ math.Float64bits(c.Factor()) + golden)
	if h == 0 {
		return golden
	}
	return h
}

// HashCounts returns Call.Counts of the given numbers; it is never 0.
func HashCounts(counts []int) uint64 {
	h := mix(uint64(len(counts)) + golden)
	for _, n := range counts {
		h = mix(h ^ uint64(n) + golden)
	}
	if h == 0 {
		return golden
	}
	return h
}

// String returns a text such as "all-reduce #17 sum f32 x 1000" or
// "broadcast #3 f32 x 10 from 2".
func (c Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d", c.Kind, c.Seq)
	if c.Kind == Barrier {
		return b.String()
	}
	if c.Op != element.None {
		fmt.Fprintf(&b, " %s", c.Op)
	}
	if c.Factor() != 1 {
		fmt.Fprintf(&b, "*%g", c.Scale)
	}
	fmt.Fprintf(&b, " %s x %d", c.DType, c.Count)
	if c.Counts != 0 {
		fmt.Fprintf(&b, " (counts %08x)", uint32(c.Counts))
	}
	switch c.Kind {
	case Reduce, Gather:
		fmt.Fprintf(&b, " to %d", c.Root)
	case Broadcast, Scatter:
		fmt.Fprintf(&b, " from %d", c.Root)
	}
	return b.String()
}
