package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
)

// errOrder is what a sink returns that finds another message than the next.
var errOrder = errors.New("message out of order")

func ringSource(a *actor) {
	e := openRings(a.file(0), true)
	a.start()
	var m [messageBytes]byte
	for i := 0; i < a.Count; {
		m[0] = byte(i)
		i++
		if a.Batch == 1 {
			e.send(&m)
			continue
		}
		body, err := e.out.Reserve(messageBytes)
		if err != nil {
			// Staged messages have been published: the sink may be asleep.
			e.peer.Ring()
			body = e.reserve()
		}
		*(*[messageBytes]byte)(body) = m
		e.out.Stage(1)
		if i%a.Batch == 0 || i == a.Count {
			e.out.Publish()
			e.peer.Ring()
		}
	}
	e.recv(&m) // the sink is through
}

func ringSink(a *actor) {
	e := openRings(a.file(0), false)
	a.start()
	var m [messageBytes]byte
	a.messageRate(func() byte {
		e.recv(&m)
		return m[0]
	})
	e.send(&m)
}

// messageRate receives the role's number of messages and hands over how many came in a
// second, from the first to the last. recv returns a message's first byte.
func (a *actor) messageRate(recv func() byte) {
	var start time.Time
	for i := range a.Count {
		if b := recv(); b != byte(i) {
			check(fmt.Errorf("%w: message %d begins with %d", errOrder, i, b))
		}
		if i == 0 {
			start = time.Now()
		}
	}
	a.measured(float32(float64(max(a.Count-1, 1)) / time.Since(start).Seconds()))
}

func connSource(a *actor) {
	ctx := context.Background()
	c := a.acceptOne(ctx)
	var m [messageBytes]byte
	for i := range a.Count {
		m[0] = byte(i)
		sendConn(ctx, c, &m)
	}
	untilGone(func() { recvConn(ctx, c, &m) }) // the sink is through
}

func connSink(a *actor) {
	ctx := context.Background()
	c := a.dial()
	a.start()
	var m [messageBytes]byte
	a.messageRate(func() byte {
		recvConn(ctx, c, &m)
		return m[0]
	})
}

// window is how many payloads are on their way: one being filled, one being read, two
// between.
const window = 4

// blockSource fills blocks of an arena and sends their handles; the descriptor of a
// segment goes with the first handle into it. A handle that comes back is of a block that
// was read.
func blockSource(a *actor) {
	ctx := context.Background()
	c := a.acceptOne(ctx)
	var fresh []*shm.Segment
	arena := must(shm.NewArena(&shm.ArenaOptions{
		Segment:   shm.Options{Prefault: true, Huge: true},
		First:     int64(max(2*window*a.Size, 16<<20)),
		OnSegment: func(s *shm.Segment) { fresh = append(fresh, s) },
	}))
	source := make([]byte, a.Size)
	if a.Kind == "fill" {
		source = source[:min(a.Size, 64<<10)] // what is computed comes out of the cache
	}
	out := map[shm.Handle]*shm.Block{}
	for range a.Count {
		for len(out) == window {
			takeBack(ctx, c, out)
		}
		b := must(arena.Alloc(a.Size))
		for body := b.Bytes(); len(body) > 0; {
			body = body[copy(body, source):]
		}
		out[b.Handle()] = b
		for _, s := range fresh {
			sendSegment(ctx, c, s)
		}
		fresh = nil
		sendHandle(ctx, c, b.Handle())
	}
	for len(out) > 0 {
		takeBack(ctx, c, out)
	}
}

// Kinds of messages between the ends of a stream of blocks.
const (
	kindHandle  = 1
	kindSegment = 2 // id and size, with its descriptor
)

func sendHandle(ctx context.Context, c ipc.Conn, h shm.Handle) {
	body := must(c.Reserve(ctx, kindHandle, shm.HandleSize))
	h.Put(body)
	check(c.Commit())
}

func sendSegment(ctx context.Context, c ipc.Conn, s *shm.Segment) {
	body := must(c.Reserve(ctx, kindSegment, 16))
	binary.LittleEndian.PutUint64(body, s.ID())
	binary.LittleEndian.PutUint64(body[8:], uint64(s.Size()))
	check(c.Commit(s.File()))
}

// recvHandle takes a message of a handle.
func recvHandle(c ipc.Conn, m ipc.Message) shm.Handle {
	if len(m.Body) != shm.HandleSize {
		check(fmt.Errorf("message of %d bytes, expected a handle", len(m.Body)))
	}
	h := shm.GetHandle(m.Body)
	c.Release()
	return h
}

// takeBack waits for a handle and releases its block.
func takeBack(ctx context.Context, c ipc.Conn, out map[shm.Handle]*shm.Block) {
	m := must(c.Recv(ctx))
	h := recvHandle(c, m)
	b := out[h]
	if b == nil {
		check(fmt.Errorf("handle %v came back, which is not on its way", h))
	}
	delete(out, h)
	b.Release()
}

// blockSink reads a word of every line in place, or copies the payload out.
func blockSink(a *actor) {
	ctx := context.Background()
	c := a.dial()
	table := shm.NewTable(&shm.TableOptions{Prefault: true})
	own := make([]byte, a.Size)
	a.start()
	var start time.Time
	for i := 0; i < a.Count; {
		m := must(c.Recv(ctx))
		if m.Kind == kindSegment {
			if len(m.Body) != 16 || len(m.Files) != 1 {
				check(fmt.Errorf("segment message of %d bytes with %d files", len(m.Body), len(m.Files)))
			}
			id, size := binary.LittleEndian.Uint64(m.Body), binary.LittleEndian.Uint64(m.Body[8:])
			c.Release()
			check(table.Add(1, id, m.Files[0], int64(size)))
			continue
		}
		h := recvHandle(c, m)
		b := must(table.Open(1, h))
		if a.Kind == "fill" {
			readLines(b.Bytes())
		} else {
			copy(own, b.Bytes())
		}
		b.Release()
		sendHandle(ctx, c, h)
		if i == 0 {
			start = time.Now() // without the mapping of the segment
		}
		i++
	}
	bytes := float64(max(a.Count-1, 1)) * float64(a.Size)
	a.measured(float32(bytes / float64(time.Since(start))))
}

// readLines reads one word of every cache line.
//
//go:noinline
func readLines(b []byte) (sum uint64) {
	for ; len(b) >= 64; b = b[64:] {
		sum += binary.LittleEndian.Uint64(b)
	}
	return sum
}

// copyRate is what copy does within one process, in GB/s.
func copyRate(n, size int) float64 {
	from, to := make([]byte, size), make([]byte, size)
	for i := range from {
		from[i], to[i] = byte(i), 1
	}
	start := time.Now()
	for range n {
		copy(to, from)
	}
	return float64(n) * float64(size) / float64(time.Since(start))
}

// idle opens a conn, waits for a message that never comes, and measures how much of a
// core that takes.
func idle(a *actor) {
	ctx := context.Background()
	var c ipc.Conn
	if a.Kind == "listen" {
		c = a.acceptOne(ctx)
	} else {
		c = a.dial()
		a.ready()
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Recv(ctx)
		done <- err
	}()
	a.waitGo()
	before, start := cpuTime(), time.Now()
	time.Sleep(time.Duration(a.Count) * time.Millisecond)
	percent := float32(100 * float64(cpuTime()-before) / float64(time.Since(start)))
	// The other end is measured as well, so neither goes before both are through: each
	// waits for the other's word.
	var m [messageBytes]byte
	sendConn(ctx, c, &m)
	check(<-done)
	a.measured(percent)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
