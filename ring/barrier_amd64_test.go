//go:build amd64 && !race

package ring

import (
	"errors"
	"testing"
)

// TestBarrierSparesFence checks which end makes a fence at which time: a sleeper promises
// barriers when it gets its waiter, and the ends that ring learn of it when they attach
// or when they next ring.
func TestBarrierSparesFence(t *testing.T) {
	fail := errors.New("no such system call")
	for _, tt := range []struct {
		name          string
		barrier, heed error
		fence         bool
	}{
		{"both work", nil, nil, false},
		{"no barrier", fail, nil, true},
		{"nobody heeds it", nil, fail, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			barriers, heeds := 0, 0
			futex := newHeapFutex().futex()
			futex.Barrier = func() error { barriers++; return tt.barrier }
			futex.Heed = func() error { heeds++; return tt.heed }
			mem := make([]byte, BellSize)
			if err := InitBell(mem); err != nil {
				t.Fatal(err)
			}
			attach := func() *Bell {
				b, err := NewBell(mem, futex)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			own, before := attach(), attach()
			if heeds != 0 || !before.fence.Load() {
				t.Fatalf("before there is a waiter: %d heeds, fence %t, expected 0 and true", heeds, before.fence.Load())
			}
			NewWaiter(own, nil)
			after := attach()
			before.Ring()
			for name, b := range map[string]*Bell{"attached before": before, "attached after": after} {
				if b.fence.Load() != tt.fence {
					t.Errorf("%s: fence %t, expected %t", name, b.fence.Load(), tt.fence)
				}
			}
			before.Ring()
			if heeds > 2 {
				t.Errorf("heeded %d times, expected once for each of two", heeds)
			}
			barriers = 0
			own.announce()
			if want := 1; (tt.barrier == nil) != (barriers == want) {
				t.Errorf("%d barriers on the way to sleep", barriers)
			}
			if own.rung() {
				t.Error("the bell was rung before anybody slept")
			}
			after.Ring()
			if !own.rung() {
				t.Error("the sleeper was not woken")
			}
		})
	}
}
