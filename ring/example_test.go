package ring_test

import (
	"fmt"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// A producer and a consumer, here in one goroutine. Between processes the bytes come from
// a shared segment, and each end is opened in its own.
func Example() {
	mem := make([]byte, ring.Size(1024))
	if err := ring.Init(mem); err != nil {
		fmt.Println(err)
		return
	}
	p, err := ring.NewProducer(mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := ring.NewConsumer(mem, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, word := range []string{"written", "where", "it", "is", "read"} {
		body, err := p.Reserve(len(word))
		if err != nil { // ring.ErrFull: wait for CanReserve
			fmt.Println(err)
			return
		}
		copy(body, word)
		p.Commit(uint32(i))
	}
	for {
		tag, body, err := c.Peek()
		if err == ring.ErrEmpty {
			break
		}
		fmt.Println(tag, string(body))
		c.Release()
	}
	// Output:
	// 0 written
	// 1 where
	// 2 it
	// 3 is
	// 4 read
}

// A consumer that sleeps while there is nothing, and is woken by its bell.
func ExampleWaiter() {
	seg, err := shm.Create(1<<16, nil) // what two processes would share
	if err != nil {
		fmt.Println(err)
		return
	}
	defer seg.Close()
	bellMem, ringMem := seg.Bytes()[:ring.BellSize], seg.Bytes()[4096:4096+ring.Size(4096)]
	if ring.InitBell(bellMem) != nil || ring.Init(ringMem) != nil {
		return
	}
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	done := make(chan string)
	c, err := ring.NewConsumer(ringMem, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		bell, err := ring.NewBell(bellMem, futex)
		if err != nil {
			done <- err.Error()
			return
		}
		ring.NewWaiter(bell, nil).Wait(c.Ready, nil)
		_, body, err := c.Peek()
		if err != nil {
			done <- err.Error()
			return
		}
		done <- string(body)
	}()

	bell, err := ring.NewBell(bellMem, futex)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := ring.NewProducer(ringMem)
	if err != nil {
		fmt.Println(err)
		return
	}
	if body, err := p.Reserve(7); err == nil {
		copy(body, "wake up")
		p.Commit(0)
		bell.Ring() // a system call only if the other sleeps
	}
	fmt.Println(<-done)
	// Output: wake up
}
