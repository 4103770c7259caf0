package plan

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/ringside-go/ringside/collective/element"
)

// Kind says which of the collective operations a call is.
type Kind uint8

// The numbers travel between ranks: append, never reorder.
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

var kindNames = [kinds]string{"no call", "all-reduce", "reduce", "reduce-scatter", "all-gather", "broadcast", "scatter",
	"gather", "all-to-all", "barrier", "send", "recv"}

// Valid says whether k is one of the constants.
func (k Kind) Valid() bool { return k < kinds }

// Paired says whether the call is between two ranks only.
func (k Kind) Paired() bool { return k == Send || k == Recv }

func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// CallBytes is the size of an encoded Call.
const CallBytes = 40

// Call is what every rank that takes part in one collective operation must say alike. Ranks compare the 64 bits of Word
// where they meet, which costs nothing, and exchange the whole only to say in an error what each of them wanted.
//
//	byte  0        8    9  10    11 12     16      24       32      40
//	     | Seq     |Kind|Op|DType| 0| Root  | Count | Counts | Scale |      little endian
type Call struct {
	// Seq counts the calls of a group, from 1. Sends and receives count per pair and direction.
	Seq   uint64
	Kind  Kind
	Op    element.Reduction
	DType element.DType

	// Root is the special rank of Reduce, Broadcast, Scatter and Gather, else 0.
	Root int32

	// Count is the number of elements of the whole operation's longest buffer; for AllToAll with uneven counts, of
	// which every rank has its own, 0.
	Count int64

	// Counts is HashCounts of uneven counts that all ranks know, 0 where counts are even or each rank has its own.
	Counts uint64

	// Scale is what the result is multiplied by before it is rounded: 1/n for a mean. 0 is 1.
	Scale float64
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

// DecodeCall reads what Encode wrote. b may be anything: what comes back is safe to print, and the error is ErrBadCall.
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
	switch {
	case !c.Kind.Valid() || !c.Op.Valid() || c.DType != element.Invalid && !c.DType.Valid() || b[11] != 0:
		return Call{}, fmt.Errorf("%w: kind %d, op %d, dtype %d, reserved %d", ErrBadCall, b[8], b[9], b[10], b[11])
	case c.Count < 0 || c.Root < 0:
		return Call{}, fmt.Errorf("%w: count %d, root %d", ErrBadCall, c.Count, c.Root)
	}
	return c, nil
}

// mix spreads x over 64 bits: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

const golden = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio

// Word is 64 bits of which it is safe to say that two calls with the same are the same; never 0. A Recv has the word of
// the Send that it meets.
func (c Call) Word() uint64 {
	kind := c.Kind
	if kind == Recv {
		kind = Send
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1
	}
	h := mix(c.Seq + golden)
	h = mix(h ^ (uint64(kind) | uint64(c.Op)<<8 | uint64(c.DType)<<16 | uint64(uint32(c.Root))<<32) + golden)
	h = mix(h ^ uint64(c.Count) + golden)
	h = mix(h ^ c.Counts + golden)
	h = mix(h ^ math.Float64bits(scale) + golden)
	if h == 0 {
		return golden
	}
	return h
}

// HashCounts is Call.Counts of the given numbers; never 0.
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

// String is like "all-reduce #17 sum f32 x 1000" or "broadcast #3 f32 x 10 from 2".
func (c Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d", c.Kind, c.Seq)
	if c.Kind == Barrier {
		return b.String()
	}
	if c.Op != element.None {
		fmt.Fprintf(&b, " %s", c.Op)
	}
	if c.Scale != 0 && c.Scale != 1 {
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
