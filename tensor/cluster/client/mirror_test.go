package client

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// TestMirrorByBytes: large programs are forgotten before there are many, those used
// longest ago first, but never the one that is being sent, however large.
func TestMirrorByBytes(t *testing.T) {
	const quarter = maxProgramBytes / 4
	m := mirror{max: maxPrograms}
	for i := range byte(4) {
		if forget := m.add(wire.Hash{i}, quarter, nil); len(forget) > 0 {
			t.Fatalf("program %d: %v are to be forgotten, there is room", i, forget)
		}
	}
	if !m.use(wire.Hash{0}) || m.use(wire.Hash{9}) {
		t.Error("program 0 is not known, or one that was never added is")
	}
	if forget := m.add(wire.Hash{4}, 1, nil); len(forget) != 1 || forget[0] != (wire.Hash{1}) {
		t.Errorf("for one more byte %v are to be forgotten, expected program 1", forget)
	}
	first := wire.Hash{77}
	forget := m.add(wire.Hash{5}, 2*maxProgramBytes, []wire.Hash{first})
	want := []wire.Hash{first, {2}, {3}, {0}, {4}}
	if len(forget) != len(want) {
		t.Fatalf("for a program larger than the room %v are to be forgotten, expected %v", forget, want)
	}
	for i, h := range want {
		if forget[i] != h {
			t.Errorf("%v are to be forgotten, expected %v", forget, want)
		}
	}
	if !m.use(wire.Hash{5}) || m.use(wire.Hash{4}) || m.order.Len() != 1 || m.bytes != 2*maxProgramBytes {
		t.Errorf("%d programs of %d bytes are kept, expected the last alone", m.order.Len(), m.bytes)
	}
	if forget := m.add(wire.Hash{6}, 1, nil); len(forget) != 1 || forget[0] != (wire.Hash{5}) || m.bytes != 1 {
		t.Errorf("%v are to be forgotten and %d bytes kept, expected program 5 and 1", forget, m.bytes)
	}
}
