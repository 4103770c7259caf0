package ring

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// end is one side of a ping-pong: what it sends on, what it reads, and how it
// waits for either.
type end struct {
	p    *Producer
	c    *Consumer
	bell *Bell // the peer's
	w    *Waiter
}

func (e *end) send(msg []byte) error {
	for {
		body, err := e.p.Reserve(len(msg))
		if err == nil {
			copy(body, msg)
			e.p.Commit(7)
			e.bell.Ring()
			return nil
		}
		if err != ErrFull {
			return err
		}
		e.w.Wait(func() bool { return e.p.CanReserve(len(msg)) }, nil)
	}
}

func (e *end) recv(msg []byte, ready func() bool) (int, error) {
	for {
		_, body, err := e.c.Peek()
		if err == nil {
			n := copy(msg, body)
			e.c.Release()
			return n, nil
		}
		if err != ErrEmpty {
			return 0, err
		}
		e.w.Wait(ready, nil)
	}
}

func pair(t testing.TB, capacity int) (a, b end) {
	f := newHeapFutex()
	bellA, bellB := heapBell(t, f), heapBell(t, f)
	_, pa, cb := heapRing(t, capacity, bellA)
	_, pb, ca := heapRing(t, capacity, bellB)
	return end{pa, ca, bellB, NewWaiter(bellA, nil)}, end{pb, cb, bellA, NewWaiter(bellB, nil)}
}

func BenchmarkPingPong(b *testing.B) {
	x, y := pair(b, 1<<16)
	n := b.N
	go func() {
		msg := make([]byte, 64)
		for range n {
			if _, err := y.recv(msg, y.c.Ready); err != nil {
				b.Error(err)
			}
			if err := y.send(msg); err != nil {
				b.Error(err)
			}
		}
	}()
	msg := make([]byte, 64)
	ready := x.c.Ready
	b.ResetTimer()
	for range n {
		if err := x.send(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := x.recv(msg, ready); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream is one way, 64 bytes a record, published every so many.
func BenchmarkStream(b *testing.B) {
	for _, batch := range []struct {
		name string
		n    int
	}{{"each", 1}, {"by32", 32}} {
		b.Run(batch.name, func(b *testing.B) {
			x, y := pair(b, 1<<18)
			n := b.N
			go func() {
				for i := 0; i < n; {
					body, err := x.p.Reserve(64)
					if err != nil {
						x.w.Wait(func() bool { return x.p.CanReserve(64) }, nil)
						continue
					}
					body[0] = byte(i)
					x.p.Stage(1)
					if i++; i%batch.n == 0 || i == n {
						x.p.Publish()
						x.bell.Ring()
					}
				}
			}()
			ready := y.c.Ready
			b.SetBytes(64)
			b.ResetTimer()
			for i := 0; i < n; {
				_, body, err := y.c.Peek()
				if err != nil {
					y.w.Wait(ready, nil)
					continue
				}
				if body[0] != byte(i) {
					b.Fatal("out of order")
				}
				y.c.Release()
				i++
			}
		})
	}
}

// BenchmarkLocal is one record through an own ring: the instructions without the
// traffic.
func BenchmarkLocal(b *testing.B) {
	_, p, c := heapRing(b, 1<<16, nil)
	for b.Loop() {
		if _, err := p.Reserve(64); err != nil {
			b.Fatal(err)
		}
		p.Commit(1)
		if _, _, err := c.Peek(); err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}

// BenchmarkGCWhileWaiting is a collection while a goroutine spins and yields in a
// wait that does not end: how long the wait holds up a stop of the world.
func BenchmarkGCWhileWaiting(b *testing.B) {
	bell := heapBell(b, newHeapFutex())
	w := NewWaiter(bell, &WaiterOptions{Park: time.Microsecond})
	var stop atomic.Bool
	done := make(chan bool)
	go func() {
		done <- w.Wait(func() bool { return false }, stop.Load)
	}()
	for b.Loop() {
		runtime.GC()
	}
	stop.Store(true)
	<-done
}
