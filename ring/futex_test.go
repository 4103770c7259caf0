package ring

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// heapFutex is a futex for words on the heap, which the race detector can follow.
type heapFutex struct {
	mu      sync.Mutex
	waiters map[*uint32][]chan struct{}
	// one message for each Wait that really sleeps, if there is room
	parked chan struct{}
}

func newHeapFutex() *heapFutex {
	return &heapFutex{waiters: make(map[*uint32][]chan struct{}), parked: make(chan struct{}, 1)}
}

func (f *heapFutex) wait(word *uint32, val uint32, timeout time.Duration) error {
	f.mu.Lock()
	if atomic.LoadUint32(word) != val {
		f.mu.Unlock()
		return nil
	}
	c := make(chan struct{})
	f.waiters[word] = append(f.waiters[word], c)
	f.mu.Unlock()
	select {
	case f.parked <- struct{}{}:
	default:
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
	}
	return nil
}

func (f *heapFutex) wake(word *uint32, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiters[word]
	for ; n > 0 && len(w) > 0; n-- {
		close(w[0])
		w = w[1:]
	}
	f.waiters[word] = w
	return nil
}

func (f *heapFutex) futex() Futex { return Futex{Wait: f.wait, Wake: f.wake} }

func heapRing(t testing.TB, capacity int, space *Bell) (mem []byte, p *Producer, c *Consumer) {
	t.Helper()
	mem = make([]byte, Size(capacity))
	if err := Init(mem); err != nil {
		t.Fatal(err)
	}
	p, err := NewProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	c, err = NewConsumer(mem, &ConsumerOptions{Space: space})
	if err != nil {
		t.Fatal(err)
	}
	return mem, p, c
}

func heapBell(t testing.TB, f *heapFutex) *Bell {
	t.Helper()
	return bellOf(t, f.futex())
}

// bellOf returns a bell over heap memory.
func bellOf(t testing.TB, f Futex) *Bell {
	t.Helper()
	mem := make([]byte, BellSize)
	if err := InitBell(mem); err != nil {
		t.Fatal(err)
	}
	b, err := NewBell(mem, f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
