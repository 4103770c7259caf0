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
func newRings() *shm.Segment {
	seg := must(shm.Create(ringSegment(), &shm.Options{Prefault: true}))
	mem, size := seg.Bytes(), ring.Size(ringCapacity)
	check(errors.Join(
		ring.InitBell(mem[firstBell:firstBell+ring.BellSize]),
		ring.InitBell(mem[secondBell:secondBell+ring.BellSize]),
		ring.Init(mem[firstRing:firstRing+size]),
		ring.Init(mem[firstRing+size:firstRing+2*size]),
	))
	return seg
}

// ringEnd is one process's half of the segment.
type ringEnd struct {
	out   *ring.Producer
	in    *ring.Consumer
	wait  *ring.Waiter
	peer  *ring.Bell // that the other end sleeps on
	ready func() bool
	room  func() bool
}

// openRings is the end of the first or of the second process, which ends with it.
func openRings(f *os.File, first bool) *ringEnd {
	mem, size := must(shm.FromFile(1, f, ringSegment(), &shm.Options{Prefault: true})).Bytes(), ring.Size(ringCapacity)
	own, peer, out, in := firstBell, secondBell, firstRing, firstRing+size
	if !first {
		own, peer, out, in = peer, own, in, out
	}
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	bell := func(at int) *ring.Bell { return must(ring.NewBell(mem[at:at+ring.BellSize], futex)) }
	e := &ringEnd{wait: ring.NewWaiter(bell(own), nil), peer: bell(peer), out: must(ring.NewProducer(mem[out : out+size]))}
	e.in = must(ring.NewConsumer(mem[in:in+size], &ring.ConsumerOptions{Space: e.peer}))
	e.ready = e.in.Ready
	e.room = func() bool { return e.out.CanReserve(messageBytes) }
	return e
}

// reserve waits for the place of a message.
func (e *ringEnd) reserve() []byte {
	for {
		body, err := e.out.Reserve(messageBytes)
		if err == nil {
			return body
		}
		if !errors.Is(err, ring.ErrFull) {
			check(err)
		}
		e.wait.Wait(e.room, nil)
	}
}

func (e *ringEnd) send(m *[messageBytes]byte) {
	body, err := e.out.Reserve(messageBytes)
	if err != nil {
		body = e.reserve()
	}
	*(*[messageBytes]byte)(body) = *m
	e.out.Commit(1)
	e.peer.Ring()
}

func (e *ringEnd) recv(m *[messageBytes]byte) {
	for {
		_, body, err := e.in.Peek()
		if err == nil {
			copy(m[:], body)
			e.in.Release()
			return
		}
		if err != ring.ErrEmpty { // as it is, never wrapped: this is what is timed
			check(err)
		}
		e.wait.Wait(e.ready, nil)
	}
}

// trips makes the role's number of round trips and hands over what each took, in ns.
func (a *actor) trips(once func()) {
	took := make([]float32, a.Count)
	ns := nsPerTick()
	a.start()
	if a.PauseUS > 0 {
		for i := range took {
			time.Sleep(time.Duration(a.PauseUS) * time.Microsecond)
			before := ticks()
			once()
			took[i] = float32(float64(ticks()-before) * ns)
		}
	} else {
		for i, began := 0, time.Now(); i < len(took)/10+1 || time.Since(began) < settle; i++ {
			once()
		}
		for i, before := 0, ticks(); i < len(took); i++ {
			once()
			now := ticks()
			took[i] = float32(float64(now-before) * ns)
			before = now
		}
	}
	a.measured(took...)
}

// settle is how long round trips are made, at least, before those that count. A process
// begins on its parent's core, and the kernel takes some time to spread processes.
const settle = 150 * time.Millisecond

// untilGone does something again and again until the other processes end.
func untilGone(once func()) {
	err := try(func() {
		for {
			once()
		}
	})
	for _, end := range []error{io.EOF, ipc.ErrPeerGone, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, end) {
			return
		}
	}
	check(err)
}

// ping makes round trips and measures them.
func ping(a *actor) {
	trip, _ := a.ways(true)
	a.trips(trip)
}

// pong answers, after its work.
func pong(a *actor) {
	_, answer := a.ways(false)
	a.ready()
	untilGone(answer)
}

// ways opens the role's end of two rings, of a conn or of a stream of bytes, and returns
// how a message goes there and comes back, and how one comes and is sent back.
func (a *actor) ways(first bool) (trip, answer func()) {
	var m [messageBytes]byte
	switch a.Kind {
	case "ring":
		e := openRings(a.file(0), first)
		return func() {
				e.send(&m)
				e.recv(&m)
			}, func() {
				e.recv(&m)
				e.send(&m)
			}
	case "conn":
		ctx := context.Background()
		var c ipc.Conn
		if first || a.Hello != ipc.RoleUnknown {
			c = a.dial()
		} else {
			c = a.acceptOne(ctx)
		}
		return func() {
				sendConn(ctx, c, &m)
				recvConn(ctx, c, &m)
			}, func() {
				recvConn(ctx, c, &m)
				a.work()
				sendConn(ctx, c, &m)
			}
	}
	s := a.stream()
	return func() {
			must(s.Write(m[:]))
			must(io.ReadFull(s, m[:]))
		}, func() {
			must(io.ReadFull(s, m[:]))
			a.work()
			must(s.Write(m[:]))
		}
}

// work keeps the core busy.
func (a *actor) work() {
	if a.WorkUS > 0 {
		for start := time.Now(); time.Since(start) < time.Duration(a.WorkUS)*time.Microsecond; {
		}
	}
}

// recvConn takes one message of the expected size.
func recvConn(ctx context.Context, c ipc.Conn, m *[messageBytes]byte) {
	got := must(c.Recv(ctx))
	if copy(m[:], got.Body) != messageBytes {
		check(fmt.Errorf("message of %d bytes, expected %d", len(got.Body), messageBytes))
	}
	c.Release()
}

func sendConn(ctx context.Context, c ipc.Conn, m *[messageBytes]byte) {
	body := must(c.Reserve(ctx, 1, messageBytes))
	*(*[messageBytes]byte)(body) = *m
	check(c.Commit())
}

// dial connects to the role's address. The conn ends with the process.
func (a *actor) dial() ipc.Conn {
	return must(local.New().Dial(context.Background(), a.Addr, &ipc.Options{Hello: ipc.Peer{Role: a.Hello}}))
}

// acceptOne listens at the role's address, says so, and returns the first conn.
func (a *actor) acceptOne(ctx context.Context) ipc.Conn {
	l := must(local.New().Listen(a.Addr, nil))
	defer l.Close()
	a.ready()
	return must(l.Accept(ctx))
}

// rawBytes reads and writes by blocking system calls and nothing else.
type rawBytes struct{ r, w int }

func (p rawBytes) Read(b []byte) (int, error)  { return len(b), readFull(p.r, b) }
func (p rawBytes) Write(b []byte) (int, error) { return len(b), writeAll(p.w, b) }

// stream is the role's stream of bytes: "raw" over one descriptor or "pipe" over two,
// read and write, "net" as package net has it.
func (a *actor) stream() io.ReadWriter {
	if a.Kind == "net" {
		f := a.file(0)
		defer f.Close()
		return must(net.FileConn(f))
	}
	p := rawBytes{3, 3}
	if a.Kind == "pipe" {
		p.w = 4
	}
	check(errors.Join(syscall.SetNonblock(p.r, false), syscall.SetNonblock(p.w, false)))
	return p
}

func readFull(fd int, b []byte) error { return transferAll(syscall.Read, "reading from", fd, b) }

func writeAll(fd int, b []byte) error { return transferAll(syscall.Write, "writing to", fd, b) }

// transferAll calls a system call until it has taken all of b. The error is io.EOF at the
// end.
func transferAll(call func(fd int, b []byte) (int, error), does string, fd int, b []byte) error {
	for len(b) > 0 {
		n, err := call(fd, b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return fmt.Errorf("bench: %s the peer: %w", does, err)
		case n == 0:
			return io.EOF
		default:
			b = b[n:]
		}
	}
	return nil
}
