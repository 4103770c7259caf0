package protocol

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

// TestRequestAmounts: errors about lengths have bytes and, where they are whole,
// elements.
func TestRequestAmounts(t *testing.T) {
	for _, c := range []struct {
		dtype    element.DType
		dst, src int
		want     string
	}{
		{element.F32, 12, 16, "dst has 12 bytes (3 of f32), expected 16 bytes (4 of f32)"},
		{element.F64, 12, 16, "dst has 12 bytes, expected 16 bytes (2 of f64)"},
		{element.Invalid, 12, 16, "dst has 12 bytes, expected 16 bytes"},
	} {
		r := Request{Call: Call{Kind: AllReduce, DType: c.dtype}, Dst: make([]byte, c.dst), Src: make([]byte, c.src)}
		if err := r.Check(0, 2); err == nil || err.Error() != ErrBadCall.Error()+": "+c.want {
			t.Errorf("%v: %v, expected %q", c.dtype, err, c.want)
		}
	}
}

// TestRequest checks requests of rank 1 of 3, and the counts of their parts.
func TestRequest(t *testing.T) {
	b := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		r      Request
		ok     bool
		counts []int // nil: the call has no parts
	}{
		{Request{Step: AllReduce, Dst: b(8), Src: b(8)}, true, nil},
		{Request{Step: AllReduce, Dst: b(8), Src: b(4)}, false, nil},
		{Request{Step: Reduce, Src: b(8)}, true, nil},
		{Request{Step: Reduce, Src: b(8), Peer: 1}, false, nil},
		{Request{Step: Reduce, Src: b(8), Peer: 3}, false, nil},
		{Request{Step: ReduceScatter, Dst: b(4), Src: b(12)}, true, []int{4, 4, 4}},
		{Request{Step: ReduceScatter, Dst: b(4), Src: b(8)}, false, nil},
		{Request{Step: ReduceScatter, Dst: b(4), Src: b(9), Counts: []int{3, 4, 2}}, true, []int{3, 4, 2}},
		{Request{Step: ReduceScatter, Dst: b(3), Src: b(9), Counts: []int{3, 4, 2}}, false, nil},
		{Request{Step: AllGather, Dst: b(12), Src: b(4)}, true, []int{4, 4, 4}},
		{Request{Step: AllGather, Dst: b(12), Src: b(4), Counts: []int{4, 8}}, false, nil},
		{Request{Step: Gather, Src: b(4)}, true, []int{4, 4, 4}},
		{Request{Step: Gather, Src: b(4), Peer: 1}, false, nil},
		{Request{Step: Gather, Dst: b(12), Src: b(4), Peer: 1}, true, []int{4, 4, 4}},
		{Request{Step: Scatter, Dst: b(4), Peer: 2}, true, []int{4, 4, 4}},
		{Request{Step: Scatter, Dst: b(4), Src: b(9), Peer: 1, Counts: []int{3, 4, 2}}, true, []int{3, 4, 2}},
		{Request{Step: Scatter, Dst: b(4), Peer: -1}, false, nil},
		{Request{Step: AllToAll, Dst: b(6), Src: b(6)}, true, []int{2, 2, 2}},
		{Request{Step: AllToAll, Dst: b(7), Src: b(7)}, false, nil},
		{Request{Step: AllToAll, Dst: b(6), Src: b(4), Counts: []int{1, 2, 1}, Recv: []int{4, 2, 0}}, true, []int{1, 2, 1}},
		{Request{Step: AllToAll, Dst: b(6), Src: b(4), Counts: []int{1, 2, 1}, Recv: []int{3, 3, 0}}, false, nil},
		{Request{Step: AllToAll, Dst: b(6), Src: b(6), Recv: []int{2, 2, 2}}, false, nil},
		{Request{Step: Broadcast, Dst: b(6), Peer: 2}, true, nil},
		{Request{Step: Broadcast, Dst: b(6), Peer: 3}, false, nil},
		{Request{Step: Send, Peer: 2}, true, nil},
		{Request{Step: Recv, Peer: 1}, false, nil},
		{Request{Step: Barrier}, true, nil},
		{Request{}, false, nil},
		{Request{Call: Call{Kind: Barrier}}, true, nil},
	} {
		if err := c.r.Check(1, 3); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadCall) {
			t.Errorf("%v of %d and %d bytes, counts %v, peer %d: %v", c.r.Kind(), len(c.r.Dst), len(c.r.Src), c.r.Counts, c.r.Peer, err)
		}
		if c.counts == nil {
			continue
		}
		counts, recv := c.r.Parts(make([]int, 3))
		if !slices.Equal(counts, c.counts) || c.r.Counts == nil && !slices.Equal(recv, c.counts) {
			t.Errorf("%v: parts %v and %v, expected %v", c.r.Kind(), counts, recv, c.counts)
		}
	}
}
