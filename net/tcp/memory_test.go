package tcp

import (
	"testing"

	"github.com/ringside-go/ringside/ipc"
)

// TestMemory: the memory of a conn is mapped until it is closed and its last user has
// left, and no longer.
func TestMemory(t *testing.T) {
	var m memory
	out, in, err := m.open(ipc.MinRingBytes)
	if err != nil {
		t.Fatal(err)
	}
	if !m.enter() {
		t.Fatal("closed from the beginning")
	}
	m.close()
	if m.enter() {
		t.Error("a user came after it was closed")
	}
	for _, b := range [][]byte{out, in} {
		b[0], b[len(b)-1] = 1, 1
	}
	if m.seg.Bytes() == nil {
		t.Error("it is unmapped with a user within")
	}
	m.leave()
	if m.seg.Bytes() != nil {
		t.Error("it is mapped after its last user")
	}
	m.close()
}
