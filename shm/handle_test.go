package shm

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"
)

func TestHandleGolden(t *testing.T) {
	h := Handle{Segment: 0x0102030405060708, Off: 0x1122, Len: 0x33}
	const want = "0807060504030201" + "2211000000000000" + "3300000000000000"
	b := h.Append(nil)
	if got := hex.EncodeToString(b); got != want || len(b) != HandleSize {
		t.Errorf("encoded %s, expected %s", got, want)
	}
	var p [HandleSize]byte
	h.Put(p[:])
	if !bytes.Equal(p[:], b) || GetHandle(b) != h {
		t.Errorf("Put %x, Append %x, GetHandle %v", p, b, GetHandle(b))
	}
}

func TestHandleBounds(t *testing.T) {
	const size = 4096
	for _, tc := range []struct {
		off, n uint64
		in     bool
	}{
		{0, 0, true},
		{0, size, true},
		{size, 0, true},
		{size - 1, 1, true},
		{0, size + 1, false},
		{1, size, false},
		{size, 1, false},
		{size + 1, 0, false},
		{math.MaxUint64, 1, false},
		{1, math.MaxUint64, false},
		{math.MaxUint64, math.MaxUint64, false},
		{1 << 63, 1 << 63, false},
	} {
		if got := (Handle{Off: tc.off, Len: tc.n}).in(size); got != tc.in {
			t.Errorf("%d bytes at %d in %d: %v", tc.n, tc.off, size, got)
		}
	}
}

func TestClasses(t *testing.T) {
	for n := 0; n <= maxSmall; n++ {
		c := classOf(n)
		if c < 0 || c >= numClasses || classSize(c) < n || c > 0 && classSize(c-1) >= n && n > 0 {
			t.Fatalf("%d bytes: class %d of %d bytes", n, c, classSize(c))
		}
	}
	for c := range numClasses {
		size := classSize(c)
		if size%minBlock != 0 || classOf(size) != c {
			t.Errorf("class %d: %d bytes, which is class %d", c, size, classOf(size))
		}
		if n := slabPages(c) * pageSize / size; n < minSlabBlocks || n > math.MaxUint16 {
			t.Errorf("class %d: %d blocks in a slab", c, n)
		}
	}
	if classSize(numClasses-1) != maxSmall {
		t.Errorf("the last class is of %d bytes", classSize(numClasses-1))
	}
}
