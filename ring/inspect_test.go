package ring

import (
	"errors"
	"testing"
)

func TestInspect(t *testing.T) {
	mem, p, c := heapRing(t, 64, nil)
	for range 3 {
		if _, err := p.Reserve(8); err != nil {
			t.Fatal(err)
		}
		p.Commit(1)
		if _, _, err := c.Peek(); err != nil {
			t.Fatal(err)
		}
		c.Release()
	}
	if _, _, err := c.Peek(); err != ErrEmpty {
		t.Fatal(err)
	}
	if got, err := Inspect(mem[:HeaderSize]); err != nil || got != (Info{Version: Layout, Capacity: 64, Head: 48}) {
		t.Errorf("%+v, %v", got, err)
	}
	for {
		if _, err := p.Reserve(8); err == ErrFull {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.Commit(1)
	}
	if got, err := Inspect(mem); err != nil || got.Want <= 48 {
		t.Errorf("%+v, %v; expected that the producer waits", got, err)
	}
	bell := make([]byte, BellSize)
	if err := InitBell(bell); err != nil {
		t.Fatal(err)
	}
	if got, err := InspectBell(bell); err != nil || got != (BellInfo{Version: Layout}) {
		t.Errorf("%+v, %v", got, err)
	}
	b, err := NewBell(bell, newHeapFutex().futex())
	if err != nil {
		t.Fatal(err)
	}
	b.announce()
	if got, err := InspectBell(bell); err != nil || !got.Asleep {
		t.Errorf("%+v, %v; it sleeps", got, err)
	}
	for _, short := range [][]byte{nil, mem[:HeaderSize-1], make([]byte, HeaderSize), bell} {
		if got, err := Inspect(short); !errors.Is(err, ErrLayout) {
			t.Errorf("%d bytes: %+v, %v", len(short), got, err)
		}
	}
	for _, short := range [][]byte{nil, bell[:BellSize-1], make([]byte, BellSize), mem} {
		if got, err := InspectBell(short); !errors.Is(err, ErrLayout) {
			t.Errorf("%d bytes: %+v, %v", len(short), got, err)
		}
	}
}
