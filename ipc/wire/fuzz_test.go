package wire

import (
	"bytes"
	"testing"
)

// FuzzParse: whatever parses is written again and parses to the same.
func FuzzParse(f *testing.F) {
	all := messages()
	for i, m := range all {
		f.Add(uint8(i), m.append(nil, m.value))
	}
	f.Fuzz(func(t *testing.T, which uint8, src []byte) {
		m := all[int(which)%len(all)]
		first := m.fresh()
		if m.parse(src, first) != nil {
			return
		}
		b := m.append(nil, first)
		if n := m.size(first); n != len(b) {
			t.Fatalf("%s: Size is %d, Append wrote %d bytes", m.name, n, len(b))
		}
		second := m.fresh()
		if err := m.parse(b, second); err != nil {
			t.Fatalf("%s: %v\nwritten from %+v", m.name, err, first)
		}
		if c := m.append(nil, second); !bytes.Equal(b, c) {
			t.Fatalf("%s: %x\nthen %x", m.name, b, c)
		}
	})
}

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
		if n := first.Size(&h); n != len(b) {
			t.Fatalf("Size is %d, Append wrote %d bytes", n, len(b))
		}
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
		b := AppendIDs(nil, lastBase, last, base, ids)
		if n := SizeIDs(lastBase, last, base, ids); n != len(b) {
			t.Fatalf("SizeIDs is %d, AppendIDs wrote %d bytes", n, len(b))
		}
		got, rest, err := ParseIDs(b, lastBase, last, base, len(ids), nil)
		if err != nil || len(rest) != 0 {
			t.Fatalf("%v, %d bytes left", err, len(rest))
		}
		for i := range ids {
			if got[i] != ids[i] {
				t.Fatalf("id %d is %d, expected %d", i, got[i], ids[i])
			}
		}
	})
}
