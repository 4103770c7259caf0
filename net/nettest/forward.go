package nettest

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// Fault is what a Forwarder does to a stream of bytes at one place.
type Fault string

// The faults. Bytes behind the place go on, but for Cut.
const (
	Flip   Fault = "flip"   // changes one bit
	Drop   Fault = "drop"   // loses some bytes
	Repeat Fault = "repeat" // sends the last bytes again
	Delay  Fault = "delay"  // holds everything back for a moment
	Cut    Fault = "cut"    // ends the connection

	None Fault = "none" // does nothing
)

// Faults are all that do something.
var Faults = []Fault{Flip, Drop, Repeat, Delay, Cut}

// Forwarder passes connections on to an address, with a fault in each direction of each
// at a random place.
type Forwarder struct {
	to    string
	fault Fault
	from  int64 // the faults' first place,
	among int64 // and how many there are
	l     net.Listener

	mu     sync.Mutex
	rand   *rand.Rand
	conns  []net.Conn
	closed bool
	done   int // faults
}

// Forward starts a Forwarder to an address, which the test's end closes. The place of a
// fault is chosen by seed among so many bytes of a stream from the given one.
func Forward(t testing.TB, to string, fault Fault, seed uint64, from, among int64) *Forwarder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Forwarder{to: to, fault: fault, from: from, among: among, l: l, rand: rand.New(rand.NewPCG(seed, 19))}
	go f.accept()
	t.Cleanup(f.Close)
	return f
}

// Addr is where the Forwarder listens.
func (f *Forwarder) Addr() string { return f.l.Addr().String() }

// Done returns the number of faults so far.
func (f *Forwarder) Done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// Close ends the Forwarder and its connections.
func (f *Forwarder) Close() {
	f.l.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, c := range f.conns {
		c.Close()
	}
}

func (f *Forwarder) accept() {
	for {
		a, err := f.l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", f.to)
		if err != nil {
			a.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, a, b)
		if f.closed { // between the two calls above
			a.Close()
			b.Close()
		}
		go f.pass(a, b, rand.New(rand.NewPCG(f.rand.Uint64(), 1)))
		go f.pass(b, a, rand.New(rand.NewPCG(f.rand.Uint64(), 2)))
		f.mu.Unlock()
	}
}

// pass copies one direction.
func (f *Forwarder) pass(src, dst net.Conn, r *rand.Rand) {
	at := int64(math.MaxInt64)
	if f.fault != None {
		at = f.from + r.Int64N(f.among)
	}
	if _, err := io.CopyN(dst, src, at); err == nil {
		if f.harm(src, dst, r) {
			_, err = io.Copy(dst, src)
		}
		if err != nil && f.fault != Cut {
			src.Close() // the end that sends finds out, as it would of its peer
		}
	}
	_ = dst.(*net.TCPConn).CloseWrite()
}

// harm does the fault to the next bytes, and reports whether the connection goes on.
func (f *Forwarder) harm(src, dst net.Conn, r *rand.Rand) bool {
	buf := make([]byte, 1+r.IntN(64<<10))
	n, err := src.Read(buf)
	if err != nil {
		return false
	}
	b := buf[:n]
	f.mu.Lock()
	f.done++
	f.mu.Unlock()
	switch f.fault {
	case Flip:
		b[r.IntN(n)] ^= 1 << r.IntN(8)
	case Drop:
		b = b[:r.IntN(n)]
	case Repeat:
		b = append(slices.Clone(b), b[r.IntN(n):]...)
	case Delay:
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	case Cut:
		src.Close()
		dst.Close()
		return false
	default:
		panic(fmt.Sprintf("nettest: fault %q", f.fault))
	}
	_, err = dst.Write(b)
	return err == nil
}

// Through is a transport whose conns go through Forwarders, one for each Dial and each
// ListenAny.
type Through struct {
	ipc.Transport
	T           testing.TB
	Fault       Fault
	Seed        uint64 // the first Forwarder's; each has the next
	From, Among int64  // see Forward

	mu         sync.Mutex
	forwarders []*Forwarder
}

func (t *Through) forward(addr string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := Forward(t.T, addr, t.Fault, t.Seed+uint64(len(t.forwarders)), t.From, t.Among)
	t.forwarders = append(t.forwarders, f)
	return f.Addr()
}

// Dial dials the listener at addr through a Forwarder.
func (t *Through) Dial(ctx context.Context, addr string, o *ipc.Options) (ipc.Conn, error) {
	return t.Transport.Dial(ctx, t.forward(addr), o)
}

// ListenAny opens a listener whose only address is that of a Forwarder.
func (t *Through) ListenAny(at ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	l, addrs, err := t.Transport.ListenAny(at, o)
	if err != nil {
		return nil, nil, err
	}
	return l, []string{t.forward(addrs[0])}, nil
}

// Cut ends all Forwarders and their connections.
func (t *Through) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.forwarders {
		f.Close()
	}
}

// Done returns the number of faults so far.
func (t *Through) Done() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.forwarders {
		n += f.Done()
	}
	return n
}
