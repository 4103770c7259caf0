package wire

import (
	"bytes"
	"testing"

	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ipc/encoding/encodingtest"
)

func FuzzParse(f *testing.F) { encodingtest.Fuzz(f, messages()) }

// FuzzRun: the same for a run predicted from another.
func FuzzRun(f *testing.F) {
	var h History
	h.Record(sampleRun())
	next := sampleRun()
	next.Base += 1000
	f.Add(AppendRun(nil, next, &h))
	next.Inputs = append(next.Inputs, 4, 5, 6)
	next.Frees = nil
	f.Add(AppendRun(nil, next, &h))
	f.Fuzz(func(t *testing.T, src []byte) {
		var first, second Run
		if ParseRun(src, &first, &h) != nil {
			return
		}
		b := AppendRun(nil, &first, &h)
		if err := ParseRun(b, &second, &h); err != nil {
			t.Fatalf("%v\nwritten from %+v", err, first)
		}
		if c := AppendRun(nil, &second, &h); !bytes.Equal(b, c) {
			t.Fatalf("%x\nthen %x", b, c)
		}
	})
}

// FuzzIDs: any ids over any list come back.
func FuzzIDs(f *testing.F) {
	f.Add(uint64(100), uint64(200), []byte{1, 2, 3}, []byte{101, 102, 4})
	f.Fuzz(func(t *testing.T, lastBase, base uint64, lastBytes, idBytes []byte) {
		widen := func(b []byte, base uint64) (s []uint64) {
			for _, v := range b {
				s = append(s, base+uint64(int8(v))<<(v%7*9))
			}
			return s
		}
		last, ids := widen(lastBytes, lastBase), widen(idBytes, base)
		b := appendIDs(nil, lastBase, last, base, ids)
		got := make([]uint64, len(ids))
		w := encoding.Parsing("test", b)
		walkIDs(&w, "IDs", lastBase, last, base, got)
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			if got[i] != ids[i] {
				t.Fatalf("id %d is %d, expected %d", i, got[i], ids[i])
			}
		}
	})
}
