package ring

import "testing"

// TestCounter reads during additions: the count never goes back, and ends at the sum.
func TestCounter(t *testing.T) {
	const n = 10_000
	var c Counter
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range uint64(n) {
			c.Add(i)
		}
	}()
	for last, running := uint64(0), true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		now := c.Load()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
	if got, want := c.Load(), uint64(n*(n-1)/2); got != want {
		t.Errorf("%d, expected %d", got, want)
	}
}
