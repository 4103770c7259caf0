// Command pingpong is two processes that talk through two rings in shared memory. It
// starts itself again, hands the other process the memory's descriptor, and measures
// round trips. Of this module it needs packages ring and shm alone.
//
//	one segment:  | bells: ours, the child's | ring to the child | ring back |
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

const (
	capacity = 1 << 16
	there    = 4096 // bells have a page to themselves
	back     = there + ring.HeaderSize + capacity
	size     = back + ring.HeaderSize + capacity

	childArg = "child"
	memoryFD = 3 // of the child: the first of ExtraFiles
)

// errGone says that the other process has ended.
var errGone = errors.New("the other process is gone")

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == childArg {
		err = child()
	} else {
		err = parent(os.Stdout, 100_000)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

// parent makes the memory, starts the child and has so many numbers sent back, each one
// larger.
func parent(w io.Writer, rounds int) error {
	// sealed: the child can't shrink it under our feet
	seg, err := shm.Create(size, &shm.Options{Backing: shm.Memfd})
	if err != nil {
		return err
	}
	defer seg.Close()
	mem := seg.Bytes()
	if err := errors.Join(ring.Init(mem[there:back]), ring.Init(mem[back:size]),
		ring.InitBell(mem[:ring.BellSize]), ring.InitBell(mem[ring.BellSize:2*ring.BellSize])); err != nil {
		return err
	}
	e, err := newEnd(mem[there:back], mem[back:size], mem[:ring.BellSize], mem[ring.BellSize:2*ring.BellSize])
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, childArg)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{seg.File()}
	// says nothing; the kernel closes it when we end, however we end
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		e.gone.Store(true)
	}()
	began := time.Now()
	n := uint64(0)
	for range rounds {
		if n, err = e.ask(n); err != nil {
			break
		}
	}
	took := time.Since(began)
	_ = alive.Close()
	if errEnd := <-ended; err == nil {
		err = errEnd
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%d round trips, %.2f µs each; the last answer is %d\n", rounds, took.Seconds()*1e6/float64(rounds), n)
	return err
}

// child answers until the parent is gone.
func child() error {
	seg, err := shm.FromFile(0, os.NewFile(memoryFD, "memory"), size, &shm.Options{Sealed: true})
	if err != nil {
		return err
	}
	defer seg.Close()
	mem := seg.Bytes()
	e, err := newEnd(mem[back:size], mem[there:back], mem[ring.BellSize:2*ring.BellSize], mem[:ring.BellSize])
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		e.gone.Store(true)
	}()
	for {
		n, err := e.receive()
		if err == nil {
			err = e.send(n + 1)
		}
		if errors.Is(err, errGone) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// end is one process's half: one goroutine sends and receives.
type end struct {
	out    *ring.Producer
	in     *ring.Consumer
	peer   *ring.Bell   // to be rung when we have sent
	waiter *ring.Waiter // sleeps on our own bell
	gone   atomic.Bool  // the peer; a sleeper notices within 100 ms
}

func newEnd(out, in, ours, theirs []byte) (*end, error) {
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	bell, err := ring.NewBell(ours, futex)
	if err != nil {
		return nil, err
	}
	peer, err := ring.NewBell(theirs, futex)
	if err != nil {
		return nil, err
	}
	e := &end{peer: peer, waiter: ring.NewWaiter(bell, nil)}
	if e.out, err = ring.NewProducer(out); err != nil {
		return nil, err
	}
	// a wait for room sleeps on the same bell
	e.in, err = ring.NewConsumer(in, &ring.ConsumerOptions{Space: peer})
	return e, err
}

func (e *end) ask(n uint64) (uint64, error) {
	if err := e.send(n); err != nil {
		return 0, err
	}
	return e.receive()
}

// send writes a number where the peer reads it, and wakes the peer if it sleeps.
func (e *end) send(n uint64) error {
	for {
		body, err := e.out.Reserve(8)
		switch {
		case err == nil:
			binary.LittleEndian.PutUint64(body, n)
			e.out.Commit(0)
			e.peer.Ring()
			return nil
		case err != ring.ErrFull:
			return err
		case !e.waiter.Wait(func() bool { return e.out.CanReserve(8) }, e.gone.Load):
			return errGone
		}
	}
}

// receive waits for a number. The peer could write anything: the length is checked, and
// what is read is read once.
func (e *end) receive() (uint64, error) {
	if !e.waiter.Wait(e.in.Ready, e.gone.Load) {
		return 0, errGone
	}
	_, body, err := e.in.Peek()
	if err != nil {
		return 0, err
	}
	defer e.in.Release()
	if len(body) != 8 {
		return 0, fmt.Errorf("a message of %d bytes, expected 8", len(body))
	}
	return binary.LittleEndian.Uint64(body), nil
}
