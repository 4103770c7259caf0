package crosshost

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
)

// stream is one direction of a fake bulk conn: what a socket's two buffers hold.
type stream struct {
	mu     sync.Mutex
	bytes  []byte
	limit  int
	closed bool // by either end
	reader ipc.Waiter
	writer ipc.Waiter
}

func (s *stream) write(b []byte) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, false
	}
	n := min(len(b), s.limit-len(s.bytes))
	s.bytes = append(s.bytes, b[:n]...)
	if n > 0 {
		s.reader.Wake()
	}
	return n, true
}

func (s *stream) read(b []byte) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(b, s.bytes)
	s.bytes = s.bytes[n:]
	if n > 0 {
		s.writer.Wake()
	}
	return n, n > 0 || !s.closed
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.reader.Wake()
	s.writer.Wake()
}

// fake is a conn with ipc.Bulk in memory: messages go over an ipctest.Network, bulk over
// streams. It moves a random number of bytes at a time, if it has a source of them.
type fake struct {
	ipc.Conn
	out, in *stream
	rng     *rand.Rand
	turns   *atomic.Int32 // reads that are allowed; nil: any

	mu        sync.Mutex
	sendLeft  []byte
	sending   bool
	head      [16]byte
	headGot   int
	tag       uint64
	parts     []byte
	got       int
	receiving bool
	failed    error
}

func (f *fake) Features() ipc.Features { return ipc.Features{Bulk: f} }

func (f *fake) some(b []byte) []byte {
	if f.rng == nil || len(b) == 0 || f.rng.IntN(4) == 0 {
		return b
	}
	return b[:f.rng.IntN(len(b)+1)]
}

func (f *fake) BeginSend(tag uint64, parts ...[]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sending {
		panic("BeginSend while sending")
	}
	if f.failed != nil {
		return f.failed
	}
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	b := binary.LittleEndian.AppendUint64(nil, tag)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(all)))
	f.sendLeft, f.sending = append(b, all...), true
	return nil
}

func (f *fake) ProgressSend() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return false, f.failed
	}
	try := f.some(f.sendLeft)
	n, ok := f.out.write(try)
	if !ok {
		return false, f.fail(&ipc.PeerError{Peer: f.Peer(), Err: ipc.ErrPeerGone})
	}
	f.sendLeft = f.sendLeft[n:]
	f.sending = len(f.sendLeft) > 0
	if f.sending && n == len(try) {
		f.out.writer.Wake() // there is room for more
	}
	return !f.sending, nil
}

func (f *fake) fail(err error) error {
	f.failed = err
	return err
}

func (f *fake) BeginRecv(tag uint64, parts ...[]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.receiving {
		panic("BeginRecv while receiving")
	}
	if f.failed != nil {
		return f.failed
	}
	if len(parts) != 1 {
		panic("one part is all that this needs")
	}
	f.tag, f.parts, f.got, f.headGot, f.receiving = tag, parts[0], 0, 0, true
	return nil
}

func (f *fake) ProgressRecv() (int, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.got, false, f.failed
	}
	if !f.receiving {
		return 0, true, nil
	}
	if f.turns != nil && f.turns.Swap(0) == 0 {
		return f.got, false, nil
	}
	gone := func() error { return f.fail(&ipc.PeerError{Peer: f.Peer(), Err: ipc.ErrPeerGone}) }
	if f.headGot < 16 {
		n, ok := f.in.read(f.head[f.headGot:])
		if !ok {
			return 0, false, gone()
		}
		if f.headGot += n; f.headGot < 16 {
			return 0, false, nil
		}
		tag, total := binary.LittleEndian.Uint64(f.head[:]), binary.LittleEndian.Uint64(f.head[8:])
		if tag != f.tag || total != uint64(len(f.parts)) {
			return 0, false, f.fail(&ipc.BulkMismatchError{Peer: f.Peer(), Tag: f.tag, PeerTag: tag,
				Bytes: int64(len(f.parts)), PeerBytes: int64(total)})
		}
	}
	try := f.some(f.parts[f.got:])
	n := 0
	if len(try) > 0 {
		var ok bool
		if n, ok = f.in.read(try); !ok {
			return f.got, false, gone()
		}
		f.got += n
	}
	f.receiving = f.got < len(f.parts)
	if f.receiving && n == len(try) && f.turns == nil {
		f.in.reader.Wake() // there may be more
	}
	return f.got, !f.receiving, nil
}

func (f *fake) Close() error {
	err := f.Conn.Close()
	f.out.close()
	f.in.close()
	f.mu.Lock()
	if f.failed == nil {
		f.failed = net.ErrClosed
	}
	f.mu.Unlock()
	return err
}

// mesh connects n ranks: conns[i][j] is i's conn to j. waiters[i] is what rank i's were
// opened with. limit is what each direction holds; random ones move a random part of it
// at a time.
func mesh(t testing.TB, n, limit int, rng *rand.Rand) (conns [][]ipc.Conn, waiters []ipc.Waiter) {
	t.Helper()
	var network ipctest.Network
	conns = make([][]ipc.Conn, n)
	for i := range n {
		conns[i] = make([]ipc.Conn, n)
		waiters = append(waiters, ipc.NewWaiter())
	}
	hello := func(i int, w ipc.Waiter) *ipc.Options {
		return &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleRank, Name: fmt.Sprint("rank ", i)}, Waiter: w}
	}
	for i := range n {
		for j := range i {
			l, err := network.Listen("pipe:", hello(j, waiters[j]))
			if err != nil {
				t.Fatal(err)
			}
			a, err := network.Dial(t.Context(), l.Addr(), hello(i, waiters[i]))
			if err != nil {
				t.Fatal(err)
			}
			b, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			there := &stream{limit: limit, writer: waiters[i], reader: waiters[j]}
			back := &stream{limit: limit, writer: waiters[j], reader: waiters[i]}
			seed := func() *rand.Rand {
				if rng == nil {
					return nil
				}
				return rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
			}
			conns[i][j] = &fake{Conn: a, out: there, in: back, rng: seed()}
			conns[j][i] = &fake{Conn: b, out: back, in: there, rng: seed()}
		}
	}
	return conns, waiters
}

// world makes the comms of n ranks over conns, with o's options and each its own waiter.
func world(t testing.TB, conns [][]ipc.Conn, waiters []ipc.Waiter, o Options) []*Comm {
	t.Helper()
	comms := make([]*Comm, len(conns))
	each(t, len(conns), func(ctx context.Context, r int) error {
		own := o
		own.Waiter = waiters[r]
		var err error
		comms[r], err = New(ctx, r, conns[r], &own)
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, c := range comms {
			c.Close()
		}
	})
	return comms
}

// each runs f for n ranks at once and reports their errors.
func each(t testing.TB, n int, f func(ctx context.Context, r int) error) {
	t.Helper()
	for r, err := range all(t, n, f) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// all runs f for n ranks at once and returns their errors. The context ends after the
// longest time that anything may take.
func all(t testing.TB, n int, f func(ctx context.Context, r int) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { errs[r] = f(ctx, r) })
	}
	wg.Wait()
	return errs
}

// Err returns nil while the comm works, afterwards the error that killed it.
func (c *Comm) Err() error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	return nil
}
