package protocol

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
)

func TestNotice(t *testing.T) {
	n := Notice{
		Reason: TimedOut, Rank: 2, Missing: []int{0, 2}, Index: 7, Bytes: 1 << 40, Text: "why: \x01\xff",
		Call:   Call{Seq: 1, Kind: Gather, DType: element.F16, Count: 3, Root: 1},
		Theirs: Call{Seq: 1, Kind: Barrier},
	}
	got, err := ParseNotice(n.Append(nil, 3), 3)
	if err != nil || got.Reason != n.Reason || got.Rank != 2 || !slices.Equal(got.Missing, n.Missing) ||
		got.Index != 7 || got.Bytes != 1<<40 || got.Call != n.Call || got.Theirs != n.Theirs || got.Text != "why: ??" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, spoil := range map[string]func(b []byte){
		"version": func(b []byte) { b[0]++ },
		"reason":  func(b []byte) { b[1] = byte(reasons) },
		"none":    func(b []byte) { b[1] = 0 },
		"rank":    func(b []byte) { b[4] = 3 },
		"call":    func(b []byte) { b[16] = 99 },
		"theirs":  func(b []byte) { b[56] = 99 },
		"missing": func(b []byte) { b[104] = 8 },
	} {
		b := n.Append(nil, 3)
		spoil(b)
		if got, err := ParseNotice(b, 3); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := ParseNotice(append(n.Append(nil, 3), make([]byte, maxText)...), 3); err == nil {
		t.Error("too much text")
	}
	if _, err := ParseNotice(nil, 3); err == nil {
		t.Error("nothing at all")
	}
	n.Text = strings.Repeat("x", 2*maxText)
	if b := n.Append(nil, 256); len(b) != MaxNotice(256) {
		t.Errorf("%d bytes, expected %d", len(b), MaxNotice(256))
	}
}

func FuzzNotice(f *testing.F) {
	f.Add(Notice{Reason: Left}.Append(nil, 2), 2)
	f.Add(Notice{Reason: TimedOut, Rank: 1, Missing: []int{1}, Text: "late"}.Append(nil, 2), 2)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if size < 1 || size > 1<<16 {
			return
		}
		n, err := ParseNotice(b, size)
		if err != nil {
			return
		}
		if n.Rank >= size || len(n.Missing) > size {
			t.Errorf("%+v of %d ranks", n, size)
		}
		if again, err := ParseNotice(n.Append(nil, size), size); err != nil || again.Text != n.Text {
			t.Errorf("%+v became %+v, %v", n, again, err)
		}
	})
}

// TestGreeting: each field that differs is an error that names it.
func TestGreeting(t *testing.T) {
	want := Greeting{Version: 1, Rank: 2, To: 3, Ranks: 4, Options: 5, Page: 6}
	if err := want.Check(want.Append(nil), "A and B"); err != nil {
		t.Error(err)
	}
	for at, name := range map[int]string{0: "version", 4: "rank is", 8: "it greets", 12: "ranks", 16: "A and B", 24: "page"} {
		b := want.Append(nil)
		b[at]++
		if err := want.Check(b, "A and B"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("byte %d: %v, expected an error about %q", at, err, name)
		}
	}
	if want.Check(nil, "") == nil {
		t.Error("no greeting at all is taken")
	}
}
