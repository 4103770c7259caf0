package ring

import (
	"testing"
)

// TestParking: it is called before every sleep, after the bell was told and before the
// last look, and at no other time.
func TestParking(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	parked, ready := 0, false
	w := NewWaiter(bell, &WaiterOptions{Parking: func() {
		parked++
		if *bell.state != bellAsleep {
			t.Error("the bell does not say that we sleep")
		}
		ready = parked == 3 // what it asked for was there already
	}})
	go func() { // wakes it from the first two sleeps
		for range 2 {
			<-f.parked
			bell.Ring()
		}
	}()
	if !w.Wait(func() bool { return ready }, nil) || parked != 3 {
		t.Errorf("called %d times, expected 3", parked)
	}
	if s := w.Stats(); s.Sleeps != 2 {
		t.Errorf("%+v, expected 2 sleeps", s)
	}
	if !w.Wait(func() bool { return true }, nil) || parked != 3 {
		t.Error("it was called by a wait that did not sleep")
	}
}

// TestEager: the producer sees each release at once.
func TestEager(t *testing.T) {
	for _, eager := range []bool{false, true} {
		mem := make([]byte, Size(1024))
		if err := Init(mem); err != nil {
			t.Fatal(err)
		}
		p, err := NewProducer(mem)
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewConsumer(mem, &ConsumerOptions{Eager: eager})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.Reserve(8); err != nil {
				t.Fatal(err)
			}
			p.Commit(1)
		}
		if _, _, err := c.Peek(); err != nil {
			t.Fatal(err)
		}
		c.Release()
		if n := c.Stats().Publishes; (n == 1) != eager {
			t.Errorf("eager %v: %d releases were published", eager, n)
		}
	}
}
