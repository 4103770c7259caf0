package local_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// FuzzMemory has a peer write anything anywhere in the memory that it shares, between any
// two steps of the other end. Each step is five bytes: what is done, where, and what is
// written. The conn works on or ends as corrupt, with every body within its queue; then
// another is as good as new.
func FuzzMemory(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0, 1, 2, 0, 255, 255, 2, 0, 0, 0, 0})
	f.Add([]byte{1, 16, 0, 128, 7, 2, 0, 0, 0, 0, 3, 1, 0, 0, 0})
	f.Add([]byte{4, 12, 0, 1, 0, 3, 200, 0, 0, 0, 3, 200, 0, 0, 0, 1, 32, 0, 255, 255})
	l, path := listen(f, &ipc.Options{RingBytes: ipc.MinRingBytes})
	f.Fuzz(func(t *testing.T, script []byte) {
		ctx := testContext(t)
		a, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b := accept(t, ctx, l)
		defer b.Close()
		rings, bells := local.Memory(b)
		for ; len(script) >= 5 && b.Err() == nil; script = script[5:] {
			at := int(script[1]) | int(script[2])<<8
			v := uint64(script[3]) | uint64(script[4])<<24 | uint64(script[4])<<52
			switch script[0] % 6 {
			case 0: // a proper message
				if buf, err := a.TryReserve(uint32(script[3]), at%(ipc.MessageLimit(ipc.MinRingBytes)+1)); err == nil {
					clear(buf)
					_ = a.Commit()
				}
			case 1: // a word of the rings
				binary.LittleEndian.PutUint64(rings[at*8%(len(rings)-7):], v)
			case 2: // one of the headers or of the first records
				binary.LittleEndian.PutUint64(rings[at%80*8:], v)
			case 3: // a word of a bell
				binary.LittleEndian.PutUint64(bells[at%32*8:], v)
			case 4:
				if buf, err := b.TryReserve(1, at%(ipc.MessageLimit(ipc.MinRingBytes)+1)); err == nil {
					clear(buf)
					_ = b.Commit()
				} else if !errors.Is(err, ipc.ErrFull) && b.Err() == nil {
					t.Fatalf("TryReserve: %v, and the conn has no error", err)
				}
			case 5:
				m, ok, err := b.TryRecv()
				if err != nil && !errors.Is(err, ipc.ErrCorrupt) && !errors.Is(err, ipc.ErrPeerGone) {
					t.Fatal(err)
				}
				if ok {
					if len(m.Body) > ipc.MessageLimit(ipc.MinRingBytes) || len(m.Files) > 0 {
						t.Fatalf("a message of %d bytes with %d files", len(m.Body), len(m.Files))
					}
					for i := range m.Body { // all of it can be touched
						m.Body[i]++
					}
					b.Release()
				}
			}
		}
	})
}
