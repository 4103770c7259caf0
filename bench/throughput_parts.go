package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
)

// errOrder is what a sink returns that finds another message than the next.
var errOrder = errors.New("message out of order")

func ringSource(a *actor) error {
	e, err := openRings(a.file(0), true)
	if err != nil {
		return err
	}
	if err := a.start(); err != nil {
		return err
	}
	var m [messageBytes]byte
	for i := 0; i < a.Count; {
		m[0] = byte(i)
		i++
		if a.Batch == 1 {
			if err := e.send(&m); err != nil {
				return err
			}
			continue
		}
		body, err := e.out.Reserve(messageBytes)
		if err != nil {
			// Staged messages have been published: the sink may be asleep.
			e.peer.Ring()
			if body, err = e.reserve(); err != nil {
				return err
			}
		}
		*(*[messageBytes]byte)(body) = m
		e.out.Stage(1)
		if i%a.Batch == 0 || i == a.Count {
			e.out.Publish()
			e.peer.Ring()
		}
	}
	return e.recv(&m) // the sink is through
}

func ringSink(a *actor) error {
	e, err := openRings(a.file(0), false)
	if err != nil {
		return err
	}
	if err := a.start(); err != nil {
		return err
	}
	var m [messageBytes]byte
	rate, err := messageRate(a.Count, func() (byte, error) {
		err := e.recv(&m)
		return m[0], err
	})
	if err != nil {
		return err
	}
	if err := e.send(&m); err != nil {
		return err
	}
	return a.measured(rate)
}

// messageRate receives n messages and returns how many came in a second, from the first
// to the last. recv returns a message's first byte.
func messageRate(n int, recv func() (byte, error)) (float32, error) {
	var start time.Time
	for i := range n {
		b, err := recv()
		if err != nil {
			return 0, err
		}
		if b != byte(i) {
			return 0, fmt.Errorf("%w: message %d begins with %d", errOrder, i, b)
		}
		if i == 0 {
			start = time.Now()
		}
	}
	return float32(float64(max(n-1, 1)) / time.Since(start).Seconds()), nil
}

func connSource(a *actor) error {
	ctx := context.Background()
	c, err := a.acceptOne(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var m [messageBytes]byte
	for i := range a.Count {
		m[0] = byte(i)
		if err := sendConn(ctx, c, &m); err != nil {
			return err
		}
	}
	return ended(recvConn(ctx, c, &m)) // the sink is through
}

func connSink(a *actor) error {
	ctx := context.Background()
	c, err := local.New().Dial(ctx, a.Addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := a.start(); err != nil {
		return err
	}
	var m [messageBytes]byte
	rate, err := messageRate(a.Count, func() (byte, error) {
		err := recvConn(ctx, c, &m)
		return m[0], err
	})
	if err != nil {
		return err
	}
	return a.measured(rate)
}

// window is how many payloads are on their way: one being filled, one being read, two
// between.
const window = 4

// blockSource fills blocks of an arena and sends their handles; the descriptor of a
// segment goes with the first handle into it. A handle that comes back is of a block that
// was read.
func blockSource(a *actor) error {
	ctx := context.Background()
	c, err := a.acceptOne(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var fresh []*shm.Segment
	arena, err := shm.NewArena(&shm.ArenaOptions{
		Segment:   shm.Options{Prefault: true, Huge: true},
		First:     int64(max(2*window*a.Size, 16<<20)),
		OnSegment: func(s *shm.Segment) { fresh = append(fresh, s) },
	})
	if err != nil {
		return err
	}
	defer arena.Close()
	source := make([]byte, a.Size)
	if a.Kind == "fill" {
		source = source[:min(a.Size, 64<<10)] // what is computed comes out of the cache
	}
	out := map[shm.Handle]*shm.Block{}
	for range a.Count {
		for len(out) == window {
			if err := takeBack(ctx, c, out); err != nil {
				return err
			}
		}
		b, err := arena.Alloc(a.Size)
		if err != nil {
			return err
		}
		for body := b.Bytes(); len(body) > 0; {
			body = body[copy(body, source):]
		}
		out[b.Handle()] = b
		for _, s := range fresh {
			if err := sendSegment(ctx, c, s); err != nil {
				return err
			}
		}
		fresh = nil
		if err := sendHandle(ctx, c, b.Handle()); err != nil {
			return err
		}
	}
	for len(out) > 0 {
		if err := takeBack(ctx, c, out); err != nil {
			return err
		}
	}
	return nil
}

// Kinds of messages between the ends of a stream of blocks.
const (
	kindHandle  = 1
	kindSegment = 2 // id and size, with its descriptor
)

func sendHandle(ctx context.Context, c ipc.Conn, h shm.Handle) error {
	body, err := c.Reserve(ctx, kindHandle, shm.HandleSize)
	if err != nil {
		return err
	}
	h.Put(body)
	return c.Commit()
}

func sendSegment(ctx context.Context, c ipc.Conn, s *shm.Segment) error {
	body, err := c.Reserve(ctx, kindSegment, 16)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(body, s.ID())
	binary.LittleEndian.PutUint64(body[8:], uint64(s.Size()))
	return c.Commit(s.File())
}

// takeBack waits for a handle and releases its block.
func takeBack(ctx context.Context, c ipc.Conn, out map[shm.Handle]*shm.Block) error {
	m, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	if len(m.Body) != shm.HandleSize {
		return fmt.Errorf("message of %d bytes, expected a handle", len(m.Body))
	}
	h := shm.GetHandle(m.Body)
	c.Release()
	b := out[h]
	if b == nil {
		return fmt.Errorf("handle %v came back, which is not on its way", h)
	}
	delete(out, h)
	b.Release()
	return nil
}

// blockSink reads a word of every line in place, or copies the payload out.
func blockSink(a *actor) error {
	ctx := context.Background()
	c, err := local.New().Dial(ctx, a.Addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	table := shm.NewTable(&shm.TableOptions{Prefault: true})
	defer table.Close()
	own := make([]byte, a.Size)
	if err := a.start(); err != nil {
		return err
	}
	var start time.Time
	for i := 0; i < a.Count; {
		m, err := c.Recv(ctx)
		if err != nil {
			return err
		}
		if m.Kind == kindSegment {
			if len(m.Body) != 16 || len(m.Files) != 1 {
				return fmt.Errorf("segment message of %d bytes with %d files", len(m.Body), len(m.Files))
			}
			id, size := binary.LittleEndian.Uint64(m.Body), binary.LittleEndian.Uint64(m.Body[8:])
			c.Release()
			if err := table.Add(1, id, m.Files[0], int64(size)); err != nil {
				return err
			}
			continue
		}
		if len(m.Body) != shm.HandleSize {
			return fmt.Errorf("message of %d bytes, expected a handle", len(m.Body))
		}
		h := shm.GetHandle(m.Body)
		c.Release()
		b, err := table.Open(1, h)
		if err != nil {
			return err
		}
		if a.Kind == "fill" {
			readLines(b.Bytes())
		} else {
			copy(own, b.Bytes())
		}
		b.Release()
		if err := sendHandle(ctx, c, h); err != nil {
			return err
		}
		if i == 0 {
			start = time.Now() // without the mapping of the segment
		}
		i++
	}
	bytes := float64(max(a.Count-1, 1)) * float64(a.Size)
	return a.measured(float32(bytes / float64(time.Since(start))))
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
func idle(a *actor) error {
	ctx := context.Background()
	var c ipc.Conn
	var err error
	if a.Kind == "listen" {
		c, err = a.acceptOne(ctx)
	} else {
		if c, err = local.New().Dial(ctx, a.Addr, nil); err == nil {
			err = a.ready()
		}
	}
	if err != nil {
		return err
	}
	defer c.Close()
	done := make(chan error, 1)
	go func() {
		_, err := c.Recv(ctx)
		done <- err
	}()
	if err := a.waitGo(); err != nil {
		return err
	}
	before, start := cpuTime(), time.Now()
	time.Sleep(time.Duration(a.Count) * time.Millisecond)
	percent := float32(100 * float64(cpuTime()-before) / float64(time.Since(start)))
	// The other end is measured as well, so neither goes before both are through: each
	// waits for the other's word.
	var m [messageBytes]byte
	if err := errors.Join(sendConn(ctx, c, &m), <-done); err != nil {
		return err
	}
	return a.measured(percent)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
