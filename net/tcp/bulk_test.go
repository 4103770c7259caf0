package tcp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// end is one end of a conn with its bulk transfers and the waiter of both.
type end struct {
	ipc.Conn
	ipc.Bulk
	w ipc.Waiter
}

func newEnd(c ipc.Conn, w ipc.Waiter) end { return end{c, c.Features().Bulk, w} }

// waiters are the two kinds of Waiter: one polls before it sleeps and says so, the other
// does neither.
var waiters = map[string]func() (ipc.Waiter, error){
	"polling":  func() (ipc.Waiter, error) { return local.NewWaiter() },
	"sleeping": func() (ipc.Waiter, error) { return ipc.NewWaiter(), nil },
}

func testContext(t testing.TB) context.Context {
	// ends a test that hangs
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func pair(t testing.TB, ctx context.Context, newWaiter func() (ipc.Waiter, error)) (a, b end) {
	t.Helper()
	return pairOver(t, ctx, newWaiter, nil)
}

// pairOver is pair with TLS, or nil for none.
func pairOver(t testing.TB, ctx context.Context, newWaiter func() (ipc.Waiter, error), tls *ipc.TLS) (a, b end) {
	t.Helper()
	var err error
	if a.w, err = newWaiter(); err == nil {
		b.w, err = newWaiter()
	}
	if err != nil {
		t.Fatal(err)
	}
	connect(t, ctx, &a, &b, tls)
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b
}

// connect opens a conn between two ends that have their waiters.
func connect(t testing.TB, ctx context.Context, a, b *end, tls *ipc.TLS) {
	t.Helper()
	tr := tcp.New()
	l, err := tr.Listen("127.0.0.1:0", &ipc.Options{Waiter: b.w, Secret: []byte("s"), TLS: tls, Hello: ipc.Peer{Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ca, err := tr.Dial(ctx, l.Addr(), &ipc.Options{Waiter: a.w, Secret: []byte("s"), TLS: tls, Hello: ipc.Peer{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	cb, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	*a, *b = newEnd(ca, a.w), newEnd(cb, b.w)
}

// TestSendBuffer: what the kernel holds of transfers to a peer nearby is bounded, of
// messages it is not.
func TestSendBuffer(t *testing.T) {
	bounded := 0
	for range 20 {
		a, _ := pair(t, testContext(t), waiters["sleeping"])
		messages, bulk, asked, near, err := tcp.SendBuffers(a.Conn)
		if err != nil || messages == asked || near && bulk != asked {
			t.Fatalf("buffers of %d and %d bytes, near %v, asked for %d, %v", messages, bulk, near, asked, err)
		}
		if bulk == asked {
			bounded++
		}
	}
	if bounded == 0 {
		t.Error("no peer on this host was near")
	}
}

// TestUnpaced: a near peer's socket keeps the congestion control of this host until the
// first large transfer.
func TestUnpaced(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, ctx, waiters["sleeping"])
	_, _, _, near, err := tcp.SendBuffers(a.Conn)
	if err != nil {
		t.Fatal(err)
	}
	first, err := tcp.Congestion(a.Conn)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		bytes int
		want  string
	}{{1000, first}, {1 << 20, "reno"}, {1000, "reno"}} {
		if !near {
			c.want = first
		}
		done := make(chan error, 1)
		go func() { done <- b.exchange(ctx, uint64(i), nil, [][]byte{make([]byte, c.bytes)}) }()
		if err := errors.Join(a.exchange(ctx, uint64(i), [][]byte{make([]byte, c.bytes)}, nil), <-done); err != nil {
			t.Fatal(err)
		}
		if got, err := tcp.Congestion(a.Conn); err != nil || got != c.want {
			t.Errorf("after %d bytes to a peer that is near (%v): %q, %v; expected %q", c.bytes, near, got, err, c.want)
		}
	}
}

// exchange sends and receives at the same time; nil parts leave a direction out.
func (e end) exchange(ctx context.Context, tag uint64, out, in [][]byte) error {
	var err error
	sent, received := out == nil, in == nil
	if !sent {
		if err = e.BeginSend(tag, out...); err != nil {
			return err
		}
	}
	if !received {
		if err = e.BeginRecv(tag, in...); err != nil {
			return err
		}
	}
	last := 0
	errWait := e.w.Wait(ctx, func() bool {
		if !sent {
			if sent, err = e.ProgressSend(); err != nil {
				return true
			}
		}
		if !received {
			var got int
			if got, received, err = e.ProgressRecv(); err != nil {
				return true
			}
			if got < last {
				err = fmt.Errorf("got goes from %d to %d", last, got)
				return true
			}
			last = got
		}
		return sent && received
	})
	return errors.Join(err, errWait)
}

// both runs the two ends' halves.
func both(t testing.TB, a, b func() error) (errA, errB error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b() }()
	errA = a()
	return errA, <-done
}

func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// cut cuts b into random parts, some of them empty.
func cut(r *rand.Rand, b []byte) (parts [][]byte) {
	for len(b) > 0 {
		n := r.IntN(len(b) + 1)
		if r.IntN(3) == 0 {
			n = min(n, r.IntN(100))
		}
		parts = append(parts, b[:n])
		b = b[n:]
	}
	return append(parts, nil)
}

func fill(r *rand.Rand, n int) []byte {
	b := make([]byte, n, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:i+8], r.Uint64())
	}
	return b
}

// TestBulk exchanges transfers of many sizes, cut differently at the two ends, in both
// directions at once.
func TestBulk(t *testing.T) {
	sizes := []int{0, 1, 4, 23, 24, 25, 1000, 4096, 65_536, 65_537, 300_000, 1<<20 + 1, 9_000_001}
	for _, way := range []struct {
		name, waiter string
		tls          *ipc.TLS
	}{
		{"polling", "polling", nil},
		{"sleeping", "sleeping", nil},
		{"TLS", "polling", &ipc.TLS{}},
		{"TLS sleeping", "sleeping", &ipc.TLS{}},
	} {
		t.Run(way.name, func(t *testing.T) {
			ctx := testContext(t)
			r := random(t)
			a, b := pairOver(t, ctx, waiters[way.waiter], way.tls)
			for i, n := range sizes {
				fromA, fromB := fill(r, n), fill(r, n/2)
				atB, atA := make([]byte, n), make([]byte, n/2)
				outA, inA, outB, inB := cut(r, fromA), cut(r, atA), cut(r, fromB), cut(r, atB)
				tag := uint64(i)<<60 | 7
				errA, errB := both(t,
					func() error { return a.exchange(ctx, tag, outA, inA) },
					func() error { return b.exchange(ctx, tag, outB, inB) })
				if errA != nil || errB != nil {
					t.Fatalf("%d bytes: %v, %v", n, errA, errB)
				}
				if !bytes.Equal(fromA, atB) || !bytes.Equal(fromB, atA) {
					t.Fatalf("%d bytes: other bytes arrived", n)
				}
			}
		})
	}
}

// TestBulkManyParts has more parts than one system call takes.
func TestBulkManyParts(t *testing.T) {
	for name, tls := range map[string]*ipc.TLS{"plain": nil, "TLS": {}} {
		t.Run(name, func(t *testing.T) { bulkManyParts(t, tls) })
	}
}

func bulkManyParts(t *testing.T, tls *ipc.TLS) {
	ctx := testContext(t)
	r := random(t)
	a, b := pairOver(t, ctx, waiters["polling"], tls)
	from, at := fill(r, 5000*7), make([]byte, 5000*7)
	var out, in [][]byte
	for i := range 5000 {
		out = append(out, from[i*7:][:7])
	}
	for i := range 7 {
		in = append(in, at[i*5000:][:5000])
	}
	errA, errB := both(t, func() error { return a.exchange(ctx, 1, out, nil) }, func() error { return b.exchange(ctx, 1, nil, in) })
	if errA != nil || errB != nil || !bytes.Equal(from, at) {
		t.Errorf("%v, %v, equal %v", errA, errB, bytes.Equal(from, at))
	}
}

// TestBulkBesideMessages: a transfer that is not received does not hold up messages, nor
// they it.
func TestBulkBesideMessages(t *testing.T) {
	ctx := testContext(t)
	r := random(t)
	a, b := pair(t, ctx, waiters["polling"])
	from, at := fill(r, 16<<20), make([]byte, 16<<20)
	if err := a.BeginSend(1, from); err != nil {
		t.Fatal(err)
	}
	if done, err := a.ProgressSend(); done || err != nil {
		t.Fatalf("16 MB sent and not received: %v, %v", done, err)
	}
	for i := range uint32(100) {
		buf, err := a.Reserve(ctx, i, 1000)
		if err != nil {
			t.Fatal(err)
		}
		copy(buf, from)
		if err := a.Commit(); err != nil {
			t.Fatal(err)
		}
		m, err := b.Recv(ctx)
		if err != nil || m.Kind != i || !bytes.Equal(m.Body, from[:1000]) {
			t.Fatalf("message %d: kind %d, %v", i, m.Kind, err)
		}
		b.Release()
	}
	errA, errB := both(t, func() error {
		var err error
		errWait := a.w.Wait(ctx, func() bool {
			var done bool
			done, err = a.ProgressSend()
			return done || err != nil
		})
		return errors.Join(err, errWait)
	}, func() error { return b.exchange(ctx, 1, nil, [][]byte{at}) })
	if errA != nil || errB != nil || !bytes.Equal(from, at) {
		t.Errorf("%v, %v, equal %v", errA, errB, bytes.Equal(from, at))
	}
}

// TestBulkMismatch: another tag or length is an error that names both, and bulk is over
// while messages go on.
func TestBulkMismatch(t *testing.T) {
	for _, c := range []struct {
		name    string
		tag     uint64
		n       int
		peerTag uint64
		peerN   int
	}{
		{"tag", 0x11, 100, 0x22, 100},
		{"longer", 1, 10, 1, 1000},
		{"shorter", 1, 100_000, 1, 4},
		{"nothing", 1, 5, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, ctx, waiters["polling"])
			out, in := [][]byte{make([]byte, c.peerN)}, [][]byte{make([]byte, c.n)}
			errA, errB := both(t, func() error { return a.exchange(ctx, c.peerTag, out, nil) }, func() error { return b.exchange(ctx, c.tag, nil, in) })
			if errA != nil {
				t.Errorf("sender: %v", errA)
			}
			var m *ipc.BulkMismatchError
			if !errors.Is(errB, ipc.ErrBulkMismatch) || !errors.As(errB, &m) {
				t.Fatalf("receiver: %v", errB)
			}
			if m.Tag != c.tag || m.PeerTag != c.peerTag || m.Bytes != int64(c.n) || m.PeerBytes != int64(c.peerN) || m.Peer.Name != "a" {
				t.Errorf("%+v", m)
			}
			if err := b.BeginSend(5); !errors.Is(err, ipc.ErrBulkMismatch) {
				t.Errorf("BeginSend afterwards: %v", err)
			}
			if err := a.exchange(ctx, 2, nil, in); !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("the sender's next receive: %v", err)
			}
			if _, err := a.Reserve(ctx, 9, 1); err != nil || a.Commit() != nil {
				t.Fatal("no message after the mismatch")
			}
			if m, err := b.Recv(ctx); err != nil || m.Kind != 9 {
				t.Errorf("message after the mismatch: %d, %v", m.Kind, err)
			}
		})
	}
}

// TestBulkClose: what was sent before Close still arrives, and then the news; a transfer
// of our own ends.
func TestBulkClose(t *testing.T) {
	for name, newWaiter := range waiters {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, ctx, newWaiter)
			at := make([]byte, 1000)
			if err := a.exchange(ctx, 1, [][]byte{make([]byte, 1000)}, nil); err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			go func() { waiting <- a.exchange(ctx, 2, nil, [][]byte{at}) }()
			if err := b.exchange(ctx, 1, nil, [][]byte{at}); err != nil {
				t.Error(err)
			}
			a.Close()
			if err := <-waiting; !errors.Is(err, net.ErrClosed) {
				t.Errorf("our own receive: %v", err)
			}
			if err := b.exchange(ctx, 2, nil, [][]byte{at}); !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("the peer's receive: %v", err)
			}
			// A sender finds out as well, at the latest when the socket is full.
			if err := b.exchange(ctx, 3, [][]byte{make([]byte, 64<<20)}, nil); !errors.Is(err, ipc.ErrPeerGone) {
				t.Errorf("the peer's send: %v", err)
			}
			if err := a.BeginRecv(4); !errors.Is(err, net.ErrClosed) {
				t.Errorf("BeginRecv after Close: %v", err)
			}
		})
	}
}

// TestBulkMisuse: a caller's bug panics.
func TestBulkMisuse(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, ctx, waiters["sleeping"])
	if err := b.BeginRecv(1, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := a.BeginSend(1, make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(){
		"BeginRecv": func() { _ = b.BeginRecv(2) },
		"BeginSend": func() { _ = a.BeginSend(2) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a second %s did not panic", what)
				}
			}()
			do()
		}()
	}
}

// BenchmarkBulkExchange is one exchange between two processes: each sends and receives
// that many bytes.
func BenchmarkBulkExchange(b *testing.B) {
	ctx := context.Background()
	_, e := start(b, ctx, "answers", false)
	tag := uint64(0)
	for _, n := range []int{4, 1 << 10, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			body, err := e.Reserve(ctx, 1, 16)
			if err != nil {
				b.Fatal(err)
			}
			binary.LittleEndian.PutUint64(body, uint64(n))
			binary.LittleEndian.PutUint64(body[8:], uint64(b.N))
			if err := e.Commit(); err != nil {
				b.Fatal(err)
			}
			out, in := [][]byte{make([]byte, n)}, [][]byte{make([]byte, n)}
			b.SetBytes(int64(n))
			for range b.N {
				if err := e.exchange(ctx, tag, out, in); err != nil {
					b.Fatal(err)
				}
			}
			tag++
		})
	}
}

// BenchmarkMessage is a message to another process and one back.
func BenchmarkMessage(b *testing.B) {
	ctx := context.Background()
	_, e := start(b, ctx, "echoes", false)
	for _, n := range []int{4, 1 << 10, 64 << 10, ipc.MaxMessage} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for range b.N {
				if _, err := e.Reserve(ctx, 1, n); err != nil {
					b.Fatal(err)
				}
				if err := e.Commit(); err != nil {
					b.Fatal(err)
				}
				if _, err := e.Recv(ctx); err != nil {
					b.Fatal(err)
				}
				e.Release()
			}
		})
	}
}
