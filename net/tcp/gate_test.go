package tcp

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestGate has goroutines enter and leave while others close. The end comes once, with
// no goroutine within, and none enters afterwards.
func TestGate(t *testing.T) {
	for range 200 {
		var g gate
		var within, ends atomic.Int32
		g.end = func() {
			ends.Add(1)
			if n := within.Load(); n != 0 {
				t.Errorf("ended with %d within", n)
			}
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for g.enter() {
					if ends.Load() != 0 {
						t.Error("entered after the end")
					}
					within.Add(1)
					within.Add(-1)
					g.leave()
				}
			})
		}
		for range 2 {
			all.Go(g.close)
		}
		all.Wait()
		if ends.Load() != 1 || g.enter() {
			t.Fatalf("%d ends", ends.Load())
		}
	}
}
