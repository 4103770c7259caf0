package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// messageBytes is the size of the small messages, as in most tables of others.
const messageBytes = 64

// ringCapacity is that of the C floor's rings.
const ringCapacity = 1 << 20

// The segment of two bare rings.
const (
	firstBell  = 0
	secondBell = 4096
	firstRing  = 8192
)

func ringSegment() int64 { return firstRing + 2*int64(ring.Size(ringCapacity)) }

// newRings makes a segment of two rings and two bells.
func newRings() (*shm.Segment, error) {
	seg, err := shm.Create(ringSegment(), &shm.Options{Prefault: true})
	if err != nil {
		return nil, err
	}
	mem, size := seg.Bytes(), ring.Size(ringCapacity)
	if err := errors.Join(
		ring.InitBell(mem[firstBell:firstBell+ring.BellSize]),
		ring.InitBell(mem[secondBell:secondBell+ring.BellSize]),
		ring.Init(mem[firstRing:firstRing+size]),
		ring.Init(mem[firstRing+size:firstRing+2*size]),
	); err != nil {
		seg.Close()
		return nil, err
	}
	return seg, nil
}

// ringEnd is one process's half of the segment.
type ringEnd struct {
	seg   *shm.Segment
	out   *ring.Producer
	in    *ring.Consumer
	wait  *ring.Waiter
	peer  *ring.Bell // that the other end sleeps on
	ready func() bool
	room  func() bool
}

// openRings is the end of the first or of the second process.
func openRings(f *os.File, first bool) (*ringEnd, error) {
	seg, err := shm.FromFile(1, f, ringSegment(), &shm.Options{Prefault: true})
	if err != nil {
		return nil, err
	}
	mem, size := seg.Bytes(), ring.Size(ringCapacity)
	own, peer, out, in := firstBell, secondBell, firstRing, firstRing+size
	if !first {
		own, peer, out, in = peer, own, in, out
	}
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	ownBell, err := ring.NewBell(mem[own:own+ring.BellSize], futex)
	if err != nil {
		return nil, err
	}
	e := &ringEnd{seg: seg, wait: ring.NewWaiter(ownBell, nil)}
	if e.peer, err = ring.NewBell(mem[peer:peer+ring.BellSize], futex); err != nil {
		return nil, err
	}
	if e.out, err = ring.NewProducer(mem[out : out+size]); err != nil {
		return nil, err
	}
	if e.in, err = ring.NewConsumer(mem[in:in+size], &ring.ConsumerOptions{Space: e.peer}); err != nil {
		return nil, err
	}
	e.ready = e.in.Ready
	e.room = func() bool { return e.out.CanReserve(messageBytes) }
	return e, nil
}

// reserve waits for the place of a message.
func (e *ringEnd) reserve() ([]byte, error) {
	for {
		body, err := e.out.Reserve(messageBytes)
		if err == nil || !errors.Is(err, ring.ErrFull) {
			return body, err
		}
		e.wait.Wait(e.room, nil)
	}
}

func (e *ringEnd) send(m *[messageBytes]byte) error {
	body, err := e.out.Reserve(messageBytes)
	if err != nil {
		if body, err = e.reserve(); err != nil {
			return err
		}
	}
	*(*[messageBytes]byte)(body) = *m
	e.out.Commit(1)
	e.peer.Ring()
	return nil
}

func (e *ringEnd) recv(m *[messageBytes]byte) error {
	for {
		_, body, err := e.in.Peek()
		if err == nil {
			copy(m[:], body)
			e.in.Release()
			return nil
		}
		if err != ring.ErrEmpty { // as it is, never wrapped: this is what is timed
			return err
		}
		e.wait.Wait(e.ready, nil)
	}
}

// trips makes the role's number of round trips and hands over what each took, in ns.
func (a *actor) trips(once func() error) error {
	took := make([]float32, a.Count)
	ns := nsPerTick()
	if err := a.start(); err != nil {
		return err
	}
	if a.PauseUS > 0 {
		for i := range took {
			time.Sleep(time.Duration(a.PauseUS) * time.Microsecond)
			before := ticks()
			if err := once(); err != nil {
				return err
			}
			took[i] = float32(float64(ticks()-before) * ns)
		}
		return a.measured(took...)
	}
	for i, began := 0, time.Now(); i < warm(a.Count) || time.Since(began) < settle; i++ {
		if err := once(); err != nil {
			return err
		}
	}
	for i, before := 0, ticks(); i < len(took); i++ {
		if err := once(); err != nil {
			return err
		}
		now := ticks()
		took[i] = float32(float64(now-before) * ns)
		before = now
	}
	return a.measured(took...)
}

// settle is how long round trips are made, at least, before those that count. A process
// begins on its parent's core, and the kernel takes some time to spread processes.
const settle = 150 * time.Millisecond

// warm is how many round trips come before n that count, without pauses.
func warm(n int) int { return n/10 + 1 }

func ringPing(a *actor) error {
	e, err := openRings(a.file(0), true)
	if err != nil {
		return err
	}
	var m [messageBytes]byte
	return a.trips(func() error {
		if err := e.send(&m); err != nil {
			return err
		}
		return e.recv(&m)
	})
}

func ringPong(a *actor) error {
	e, err := openRings(a.file(0), false)
	if err != nil {
		return err
	}
	if err := a.ready(); err != nil {
		return err
	}
	for { // to the end that the parent makes
		var m [messageBytes]byte
		if err := e.recv(&m); err != nil {
			return err
		}
		if err := e.send(&m); err != nil {
			return err
		}
	}
}

// recvConn takes one message of the expected size.
func recvConn(ctx context.Context, c ipc.Conn, m *[messageBytes]byte) error {
	got, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	if copy(m[:], got.Body) != messageBytes {
		return fmt.Errorf("message of %d bytes, expected %d", len(got.Body), messageBytes)
	}
	c.Release()
	return nil
}

func sendConn(ctx context.Context, c ipc.Conn, m *[messageBytes]byte) error {
	body, err := c.Reserve(ctx, 1, messageBytes)
	if err != nil {
		return err
	}
	*(*[messageBytes]byte)(body) = *m
	return c.Commit()
}

func connPing(a *actor) error {
	ctx := context.Background()
	c, err := local.New().Dial(ctx, a.Addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	var m [messageBytes]byte
	return a.trips(func() error {
		if err := sendConn(ctx, c, &m); err != nil {
			return err
		}
		return recvConn(ctx, c, &m)
	})
}

// acceptOne listens at the role's address, says so, and returns the first conn.
func (a *actor) acceptOne(ctx context.Context) (ipc.Conn, error) {
	l, err := local.New().Listen(a.Addr, nil)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := a.ready(); err != nil {
		return nil, err
	}
	return l.Accept(ctx)
}

func connPong(a *actor) error {
	ctx := context.Background()
	c, err := a.acceptOne(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var m [messageBytes]byte
	for {
		err := recvConn(ctx, c, &m)
		if err == nil {
			err = sendConn(ctx, c, &m)
		}
		if errors.Is(err, ipc.ErrPeerGone) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// rawBytes reads and writes by blocking system calls and nothing else.
type rawBytes struct{ r, w int }

func (p rawBytes) Read(b []byte) (int, error)  { return len(b), readFull(p.r, b) }
func (p rawBytes) Write(b []byte) (int, error) { return len(b), writeAll(p.w, b) }

// stream is the role's stream of bytes: "raw" over one descriptor or two, read and write,
// "net" as package net has it.
func (a *actor) stream() (io.ReadWriter, error) {
	if a.Kind == "net" {
		f := a.file(0)
		defer f.Close()
		return net.FileConn(f)
	}
	fds := make([]int, 2)
	for i := range fds {
		fds[i] = 3
		if a.Kind == "pipe" {
			fds[i] += i
		}
		if err := syscall.SetNonblock(fds[i], false); err != nil {
			return nil, err
		}
	}
	return rawBytes{fds[0], fds[1]}, nil
}

func bytesPing(a *actor) error {
	s, err := a.stream()
	if err != nil {
		return err
	}
	var m [messageBytes]byte
	return a.trips(func() error {
		if _, err := s.Write(m[:]); err != nil {
			return err
		}
		_, err := io.ReadFull(s, m[:])
		return err
	})
}

func bytesPong(a *actor) error {
	s, err := a.stream()
	if err != nil {
		return err
	}
	if err := a.ready(); err != nil {
		return err
	}
	var m [messageBytes]byte
	for {
		if _, err := io.ReadFull(s, m[:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
				return nil
			}
			return err
		}
		if _, err := s.Write(m[:]); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				return nil
			}
			return err
		}
	}
}
