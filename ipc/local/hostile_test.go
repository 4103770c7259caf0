package local_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// TestHostileMemory has a peer write at random into the memory that it shares: the conn
// works on, or ends with an error, and nothing panics or hangs.
func TestHostileMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ctx := testContext(t)
	l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes})
	for range 150 {
		a, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := accept(t, ctx, l)
		rings, bells := local.Memory(b)
		for range 200 {
			if buf, err := a.TryReserve(1, r.IntN(200)); err == nil {
				clear(buf)
				_ = a.Commit()
			}
			// Mostly where it hurts: in the headers and in the records' own.
			for range r.IntN(3) {
				mem := rings
				if r.IntN(4) == 0 {
					mem = bells[:256]
				}
				at := r.IntN(len(mem)/8) * 8
				if r.IntN(2) == 0 {
					at = min(len(mem)-8, r.IntN(64)*8)
				}
				v := r.Uint64() >> r.IntN(64)
				for i := range 8 {
					mem[at+i] = byte(v >> (8 * i))
				}
			}
			m, ok, err := b.TryRecv()
			if err != nil {
				// Gone when the other end was the first to notice.
				if !errors.Is(err, ipc.ErrCorrupt) && !errors.Is(err, ipc.ErrPeerGone) {
					t.Fatalf("TryRecv: %v", err)
				}
				if b.Err() == nil {
					t.Fatal("the conn is corrupt and has no error")
				}
				break
			}
			if ok {
				if len(m.Body) > ipc.MessageLimit(ipc.MinRingBytes) {
					t.Fatalf("a message of %d bytes", len(m.Body))
				}
				b.Release()
			}
		}
		a.Close()
		b.Close()
	}
}

// TestHostileFiles: descriptors that no message is about, and datagrams without any.
func TestHostileFiles(t *testing.T) {
	ctx := testContext(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	rights := unix.UnixRights(int(null.Fd()))
	for what, attack := range map[string]func(sock *net.UnixConn) error{
		"nothing": func(sock *net.UnixConn) error { _, err := sock.Write([]byte("hello there")); return err },
		"too many at once": func(sock *net.UnixConn) error {
			fds := make([]int, ipc.MaxFiles+5)
			for i := range fds {
				fds[i] = int(null.Fd())
			}
			_, _, err := sock.WriteMsgUnix([]byte("x"), unix.UnixRights(fds...), nil)
			return err
		},
		"too many in all": func(sock *net.UnixConn) error {
			for range local.MaxPendingFiles + 1 {
				if _, _, err := sock.WriteMsgUnix([]byte("x"), rights, nil); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		l, path := listen(t, nil)
		a, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := accept(t, ctx, l)
		if err := attack(local.Socket(a)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := b.Recv(ctx); !errors.Is(err, ipc.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		b.Close()
		a.Close()
	}
}

// TestHostileWelcome dials a socket that is busy and then answers anything.
func TestHostileWelcome(t *testing.T) {
	ctx := testContext(t)
	welcome := encoding.Welcome{Version: encoding.Version, Layout: 1, RingBytes: 1 << 20, RoomBell: 128}
	good := encoding.AppendWelcome(nil, &welcome)
	welcome.RingBytes = 12345
	badRing := encoding.AppendWelcome(nil, &welcome)
	welcome.RingBytes, welcome.Layout = 1<<20, 77
	badLayout := encoding.AppendWelcome(nil, &welcome)
	welcome.Layout, welcome.Version = 1, 77
	badVersion := encoding.AppendWelcome(nil, &welcome)
	dir, err := os.Open(socketDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	small, err := os.CreateTemp(socketDir(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	for i, c := range []struct {
		answer []byte
		files  []*os.File
		want   error
	}{
		{[]byte("x"), nil, ipc.ErrCorrupt},
		{good[:20], nil, ipc.ErrCorrupt},
		{good, nil, ipc.ErrCorrupt},
		{good, []*os.File{dir, dir}, ipc.ErrCorrupt},
		{good, []*os.File{small, small}, ipc.ErrCorrupt},
		{badRing, []*os.File{small, small}, ipc.ErrCorrupt},
		{badLayout, []*os.File{small, small}, ipc.ErrVersion},
		{badVersion, []*os.File{small, small}, ipc.ErrVersion},
		{encoding.AppendRefuse(nil, &encoding.Refuse{Reason: encoding.RefuseBusy, Text: "no room"}), nil, ipc.ErrRefused},
		{nil, nil, ipc.ErrPeerGone},
	} {
		path := fmt.Sprintf("%s/%d", socketDir(t), i)
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			sock, err := l.AcceptUnix()
			if err == nil {
				_, err = sock.Read(make([]byte, 1000))
			}
			if err == nil {
				_, err = sock.Write(ipc.Busy(3))
			}
			if err == nil && c.answer != nil {
				var fds []int
				for _, f := range c.files {
					fds = append(fds, int(f.Fd()))
				}
				_, _, err = sock.WriteMsgUnix(c.answer, unix.UnixRights(fds...), nil)
			}
			done <- errors.Join(err, sock.Close())
		}()
		_, err = local.New().Dial(ctx, path, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("answer %d: %v, expected %v", i, err, c.want)
		}
		// was it busy when it was last heard?
		if busy := (*ipc.BusyError)(nil); errors.As(err, &busy) != (c.answer == nil) {
			t.Errorf("answer %d: %v", i, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		l.Close()
	}
}

// TestHandshakeTimeout: neither end waits for ever for one that says nothing.
func TestHandshakeTimeout(t *testing.T) {
	ctx := testContext(t)
	path := socketDir(t) + "/s"
	silent, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := local.New().Dial(ctx, path, &ipc.Options{HandshakeTimeout: time.Millisecond}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Dial: %v", err)
	}
	_, path = listen(t, &ipc.Options{HandshakeTimeout: time.Millisecond})
	sock, err := net.Dial("unixpacket", path)
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	if n, err := sock.Read(make([]byte, 1000)); err == nil {
		t.Errorf("the listener said %d bytes to one who said nothing", n)
	}
}

// TestLateReader: a dialer takes an answer that came in time, though it reads after its
// deadline: a machine that very many clients keep busy stops it for seconds.
func TestLateReader(t *testing.T) {
	const timeout = time.Second
	ctx := testContext(t)
	l, path := listen(t, nil)
	dialer := local.Stepping(func(step string) {
		if step == "dial: hello sent" {
			accept(t, ctx, l)
			<-time.After(timeout)
		}
	})
	c, err := dialer.Dial(ctx, path, &ipc.Options{HandshakeTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestSilentPeers has more peers connect that say nothing than there are slots. They keep
// no other one out. The oldest are hung up on for later ones, and most of the others
// after a while. Where few are silent, one that speaks late is let in.
func TestSilentPeers(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes, HandshakeTimeout: time.Hour})
	connect := func() *net.UnixConn {
		t.Helper()
		sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sock.Close() })
		return sock
	}
	const oldest = 3 * local.MaxSilent
	displaced, late := make(chan struct{}, oldest), make(chan struct{}, local.MaxSilent)
	for i := range oldest + local.MaxSilent {
		sock, ended := connect(), late
		if i < oldest {
			ended = displaced
		}
		go func() {
			_, _ = sock.Read(make([]byte, 1000))
			ended <- struct{}{}
		}()
	}
	dial := func() {
		t.Helper()
		c, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		accept(t, ctx, l)
	}
	dial()
	end := func(n int, of chan struct{}) {
		t.Helper()
		for range n {
			select {
			case <-of:
			case <-ctx.Done():
				t.Fatal("silent peers are not hung up on")
			}
		}
	}
	end(oldest, displaced)
	end(local.MaxSilent*3/4, late)
	speaks := connect()
	dial() // speaks is accepted before
	page, err := shm.Create(4096, &shm.Options{Backing: shm.Memfd})
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	hello := encoding.AppendHello(nil, &encoding.Hello{Version: encoding.Version, Layout: ring.Layout, RoomBell: ring.BellSize, Name: "late"})
	if _, _, err := speaks.WriteMsgUnix(hello, unix.UnixRights(int(page.File().Fd())), nil); err != nil {
		t.Fatal(err)
	}
	if c := accept(t, ctx, l); c.Peer().Name != "late" {
		t.Errorf("%+v, expected the peer that spoke late", c.Peer())
	}
}

// TestDialsAgain: a dialer whose Hello is not read, as one that was silent for too long,
// dials again.
func TestDialsAgain(t *testing.T) {
	path := socketDir(t) + "/s"
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			for range 3 {
				sock, err := l.AcceptUnix()
				if err != nil {
					return err
				}
				sock.Close()
			}
			sock, err := l.AcceptUnix()
			if err != nil {
				return err
			}
			defer sock.Close()
			if _, err = sock.Read(make([]byte, 1000)); err != nil {
				return err
			}
			_, err = sock.Write(encoding.AppendRefuse(nil, &encoding.Refuse{Reason: encoding.RefuseBusy, Text: "no room"}))
			return err
		}()
	}()
	if _, err := local.New().Dial(testContext(t), path, nil); !errors.Is(err, ipc.ErrRefused) {
		t.Errorf("%v, expected the answer of the fourth time", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// FuzzHello sends a listener anything, with descriptors that mean nothing, and then dials
// properly.
func FuzzHello(f *testing.F) {
	hello := encoding.AppendHello(nil, &encoding.Hello{Version: encoding.Version, Layout: 1, RingBytes: 1 << 20, RoomBell: 128, Name: "x"})
	f.Add(hello, uint8(1))
	f.Add(hello, uint8(0))
	f.Add(hello[:15], uint8(2))
	f.Add([]byte("x"), uint8(17))
	l, path := listen(f, &ipc.Options{RingBytes: ipc.MinRingBytes, HandshakeTimeout: 5 * time.Second})
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src []byte, files uint8) {
		ctx := testContext(t)
		sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		fds := make([]int, files%32)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		if len(src) > 0 && len(src) < 1<<16 {
			if _, _, err := sock.WriteMsgUnix(src, unix.UnixRights(fds...), nil); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, encoding.MaxHandshake)
			if n, err := sock.Read(answer); err == nil {
				if err := encoding.ParseRefuse(answer[:n], new(encoding.Refuse)); err != nil {
					t.Fatalf("the answer is no refusal: %v", err)
				}
			}
		}
		a, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		accept(t, ctx, l).Close()
	})
}

// TestNoLeaks: closed conns leave no descriptor and no goroutine, in either order of
// closing.
func TestNoLeaks(t *testing.T) {
	ctx := testContext(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	round := func(i int) {
		l, path := listen(t, nil)
		a, err := local.New().Dial(ctx, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := accept(t, ctx, l)
		for range 3 {
			if _, err := a.Reserve(ctx, 1, 1); err != nil {
				t.Fatal(err)
			}
			if err := a.Commit(null); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 0 {
			a, b = b, a
		}
		a.Close()
		if i%3 == 0 {
			for b.Err() == nil {
				runtime.Gosched()
			}
		}
		b.Close()
		if _, err := local.New().Dial(ctx, path, &ipc.Options{Hello: ipc.Peer{Version: encoding.Version + 1}}); !errors.Is(err, ipc.ErrVersion) {
			t.Fatal(err)
		}
		l.Close()
	}
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	round(0)
	// Descriptors of other tests may still be open for a while.
	settled := func(limit func(fds, goroutines int) bool) bool {
		for ctx.Err() == nil {
			runtime.GC()
			if limit(count(), runtime.NumGoroutine()) {
				return true
			}
		}
		return false
	}
	fds, goroutines := count(), runtime.NumGoroutine()
	for i := range 20 {
		round(i)
	}
	if !settled(func(f, g int) bool { return f <= fds && g <= goroutines }) {
		t.Errorf("%d descriptors and %d goroutines, %d and %d before", count(), runtime.NumGoroutine(), fds, goroutines)
	}
}
