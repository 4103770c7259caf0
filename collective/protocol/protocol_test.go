package protocol

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

func TestCallGolden(t *testing.T) {
	c := Call{Seq: 17, Kind: AllReduce, Op: element.Sum, DType: element.F32, Root: 0, Count: 1000, Counts: 0, Scale: 0.25}
	var b [CallBytes]byte
	c.Encode(&b)
	const want = "1100000000000000" + "01010100" + "00000000" + "e803000000000000" + "0000000000000000" + "000000000000d03f"
	if got := hex.EncodeToString(b[:]); got != want {
		t.Errorf("encoded %s, expected %s", got, want)
	}
	if w := c.Hash(); w != 0xc5f2cb281ac11e1f {
		t.Errorf("word %#x: ranks of another build would not agree", w)
	}
	if d, err := DecodeCall(b[:]); err != nil || d != c {
		t.Errorf("decoded %v, %v", d, err)
	}
	if s := c.String(); s != "all-reduce #17 sum*0.25 f32 x 1000" {
		t.Error(s)
	}
	if s := (Call{Seq: 3, Kind: Broadcast, DType: element.U8, Count: 10, Root: 2}).String(); s != "broadcast #3 u8 x 10 from 2" {
		t.Error(s)
	}
	if s := (Call{Seq: 4, Kind: Barrier}).String(); s != "barrier #4" {
		t.Error(s)
	}
}

// TestWord: whatever differs between two calls shows in their words, but for the two ends
// of a pair.
func TestWord(t *testing.T) {
	base := Call{Seq: 1, Kind: Send, DType: element.F32, Count: 10, Root: 1}
	seen := map[uint64]Call{base.Hash(): base}
	for _, change := range []func(*Call){
		func(c *Call) { c.Seq++ }, func(c *Call) { c.Kind = Reduce }, func(c *Call) { c.Op = element.Max },
		func(c *Call) { c.DType = element.I32 }, func(c *Call) { c.Count++ }, func(c *Call) { c.Root = 0 },
		func(c *Call) { c.Counts = HashCounts([]int{1, 2}) }, func(c *Call) { c.Counts = HashCounts([]int{2, 1}) },
		func(c *Call) { c.Counts = HashCounts([]int{1, 2, 0}) }, func(c *Call) { c.Scale = 0.5 },
	} {
		c := base
		change(&c)
		if other, ok := seen[c.Hash()]; ok {
			t.Errorf("%+v and %+v have the same word", c, other)
		}
		seen[c.Hash()] = c
	}
	recv, one := base, base
	recv.Kind, one.Scale = Recv, 1
	if recv.Hash() != base.Hash() || one.Hash() != base.Hash() {
		t.Error("a receive does not have the word of its send, or a scale of 1 that of none")
	}
}

func TestDecodeRefuses(t *testing.T) {
	var good [CallBytes]byte
	Call{Seq: 1, Kind: Barrier}.Encode(&good)
	for name, spoil := range map[string]func(b []byte) []byte{
		"short": func(b []byte) []byte { return b[:39] }, "long": func(b []byte) []byte { return append(b, 0) },
		"kind":  func(b []byte) []byte { b[8] = byte(kinds); return b },
		"op":    func(b []byte) []byte { b[9] = byte(element.Xor + 1); return b },
		"dtype": func(b []byte) []byte { b[10] = byte(element.BF16 + 1); return b },
		"pad":   func(b []byte) []byte { b[11] = 1; return b },
		"root":  func(b []byte) []byte { b[15] = 0x80; return b },
		"count": func(b []byte) []byte { b[23] = 0x80; return b },
	} {
		if c, err := DecodeCall(spoil(bytes.Clone(good[:]))); !errors.Is(err, ErrBadCall) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

func FuzzDecodeCall(f *testing.F) {
	f.Add(Call{Seq: 1, Kind: Gather, DType: element.F16, Count: 7, Root: 3}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := DecodeCall(b)
		if err != nil {
			return
		}
		if c.String() == "" || !bytes.Equal(c.Append(nil), b) {
			t.Errorf("%x became %v", b, c)
		}
	})
}

func TestErrors(t *testing.T) {
	c := Call{Seq: 2, Kind: Barrier}
	err := error(&PeerError{Rank: 1, Missing: []int{1, 3}, Call: c, Err: ErrTimeout})
	if s := err.Error(); s != "barrier #2: ranks 1, 3: collective: timed out" || !errors.Is(err, ErrTimeout) {
		t.Error(s)
	}
	err = &PeerError{Rank: 4, Call: c, Err: &MismatchError{Ours: c, Theirs: Call{Seq: 2, Kind: Gather, DType: element.U8, Count: 1}}}
	if s := err.Error(); !errors.Is(err, ErrMismatch) || !strings.Contains(s, "rank 4") || !strings.Contains(s, "gather #2 u8 x 1 to 0") {
		t.Error(s)
	}
}

// allParts returns every Part.
func allParts(n, unit, parts int) []Slice {
	out := make([]Slice, parts)
	for i := range out {
		out[i] = Part(n, unit, parts, i)
	}
	return out
}

// TestCuts: parts follow each other, cover everything, are whole elements and differ by
// one at most.
func TestCuts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		unit := []int{1, 2, 4, 8}[rng.IntN(4)]
		n, parts := rng.IntN(5000)*unit, 1+rng.IntN(9)
		for name, cut := range map[string][]Slice{"Part": allParts(n, unit, parts), "SplitLines": SplitLines(n, unit, parts)} {
			end, least, most := 0, n+1, 0
			for _, s := range cut {
				if s.Off != end || s.Len < 0 || s.Len%unit != 0 {
					t.Fatalf("%s(%d, %d, %d) = %v", name, n, unit, parts, cut)
				}
				end, least, most = s.End(), min(least, s.Len), max(most, s.Len)
			}
			if spread := most - least; len(cut) != parts || end != n || name == "Split" && spread > unit || spread > 128 {
				t.Fatalf("%s(%d, %d, %d) = %v", name, n, unit, parts, cut)
			}
		}
	}
}

func TestCheckCounts(t *testing.T) {
	if n, err := checkCounts([]int{4, 0, 8}, 3, 4); n != 12 || err != nil {
		t.Error(n, err)
	}
	const most = int(^uint(0) >> 1)
	for _, bad := range [][]int{{4}, {4, -4}, {4, 6}, {most - 3, most - 3}} {
		if n, err := checkCounts(bad, 2, 4); !errors.Is(err, ErrBadCall) {
			t.Errorf("%v: %d, %v", bad, n, err)
		}
	}
	if p := Packed([]int{4, 0, 8}); p[0] != (Slice{0, 4}) || p[1] != (Slice{4, 0}) || p[2] != (Slice{4, 8}) {
		t.Error(p)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		f     Fold
		n     int
		ok    bool
		plain bool
	}{
		{nil, 3, true, true}, {Fold{3}, 3, true, true}, {Fold{1, 1, 1}, 3, true, true}, {Fold{2, 1}, 3, true, true},
		{Fold{1, 2}, 3, true, false}, {Fold{2, 2}, 4, true, false}, {Fold{2, 2}, 3, false, false}, {Fold{0, 3}, 3, false, false},
		{Fold{}, 1, false, true}, {Fold{-1, 4}, 3, false, false},
	} {
		if err := c.f.Check(c.n); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrBadCall) {
			t.Errorf("%v of %d: %v", c.f, c.n, err)
		}
		if c.ok && c.f.Plain() != c.plain {
			t.Errorf("%v: plain %v", c.f, c.f.Plain())
		}
	}
}

// TestInterleave: every chunk of both streams once, in its stream's order, and none of
// the second before its Lag.
func TestInterleave(t *testing.T) {
	for first := range 8 {
		for second := range 8 {
			for lag := 1; lag < 5; lag++ {
				v := Interleave{first, second, lag}
				var next [2]int
				for i := range v.Len() {
					if got := v.Firsts(i); got != next[0] {
						t.Fatalf("%+v: %d of the first %d, expected %d", v, got, i, next[0])
					}
					s, k := v.At(i)
					which := 0
					if s {
						which = 1
					}
					if k != next[which] {
						t.Fatalf("%+v: place %d has chunk %d of stream %d, expected %d", v, i, k, which, next[which])
					}
					next[which]++
					if s && next[0] < min(first, k+lag) {
						t.Fatalf("%+v: folded chunk %d behind %d pieces", v, k, next[0])
					}
				}
				if next != [2]int{first, second} {
					t.Fatalf("%+v: %v chunks", v, next)
				}
			}
		}
	}
}

// TestHuge: buffers beyond 4 GB are cut like small ones: nothing is lost, nothing counted
// twice, and every part holds whole elements.
func TestHuge(t *testing.T) {
	for _, n := range []int{4<<30 + 8, 5<<30 - 24, 1<<40 + 72, 1<<62 - 64} {
		for _, parts := range []int{1, 2, 3, 7, 1 << 16} {
			for name, split := range map[string]func(n, unit, parts int) []Slice{"Part": allParts, "SplitLines": SplitLines} {
				off := 0
				for i, s := range split(n, 8, parts) {
					if s.Off != off || s.Len%8 != 0 || s.Len < n/parts-128*parts || s.Len > n/parts+128*parts {
						t.Fatalf("%s of %d by %d: part %d is %+v, expected at %d", name, n, parts, i, s, off)
					}
					off = s.End()
				}
				if off != n {
					t.Fatalf("%s of %d by %d ends at %d", name, n, parts, off)
				}
			}
		}
		counts := []int{n / 16 * 8, 0, 8}
		packed := Packed(counts)
		if total, err := checkCounts(counts, 3, 8); err != nil || packed[2] != (Slice{counts[0], 8}) || packed[2].End() != total {
			t.Errorf("%v: %+v, in all %d, %v", counts, packed, total, err)
		}
		call := Call{Seq: 1, Kind: AllReduce, Op: element.Sum, DType: element.F32, Count: int64(n / 4)}
		other := call
		other.Count -= 1 << 32 // the same in 32 bits
		if back, err := DecodeCall(call.Append(nil)); err != nil || back != call || call.Hash() == other.Hash() {
			t.Errorf("%v became %v, %v", call, back, err)
		}
		v := Interleave{First: n / 2, Second: n / 2, Lag: 2}
		if second, k := v.At(n - 2); v.Len() != n || !second || k != n/2-2 {
			t.Errorf("%+v: chunk %d of %d, second %v", v, k, v.Len(), second)
		}
	}
	if total, err := checkCounts([]int{math.MaxInt - 7, 8}, 2, 1); !errors.Is(err, ErrBadCall) {
		t.Errorf("counts beyond an int add up to %d, %v", total, err)
	}
}

func TestPack(t *testing.T) {
	got := Pack([]int{5, 5, 1, 20, 0, 3, 7, 1}, 10)
	want := [][2]int{{0, 2}, {2, 3}, {3, 4}, {4, 7}, {7, 8}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	if Pack(nil, 10) != nil {
		t.Error("nothing needs a bucket")
	}
}
