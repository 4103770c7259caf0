package local_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm/limits"
)

// limitFiles bounds the descriptors of this process until the test ends, or until again
// is called.
func limitFiles(t *testing.T, n uint64) (again func()) {
	t.Helper()
	var was unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	again = func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(again)
	return again
}

// fill opens descriptors until the test ends, up to the one with the number n.
func fill(t *testing.T, n int) {
	t.Helper()
	for fd := 0; fd < n; {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { null.Close() })
		fd = ipc.Number(null)
	}
}

// until waits until the log has said something.
func until(t *testing.T, ctx context.Context, log *ipctest.Log, text string) {
	t.Helper()
	for !strings.Contains(log.String(), text) {
		if ctx.Err() != nil {
			t.Fatalf("the log says %q, expected %q", log.String(), text)
		}
	}
}

// TestNoDescriptorLeft sends a message with a descriptor to a process that can open no
// more. The message waits, and arrives when it can.
func TestNoDescriptorLeft(t *testing.T) {
	ctx := testContext(t)
	var log ipctest.Log
	l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a, err := local.New().Dial(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := accept(t, ctx, l)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	again := limitFiles(t, 4) // fewer than are open
	for range 3 {
		if _, err := a.Reserve(ctx, 7, 0); err != nil {
			t.Fatal(err)
		}
		if err := a.Commit(null, null); err != nil {
			t.Fatal(err)
		}
	}
	until(t, ctx, &log, "descriptors of a peer wait")
	if _, ok, err := b.TryRecv(); ok || err != nil {
		t.Fatalf("without descriptors: %v, %v", ok, err)
	}
	again()
	for range 3 {
		m, err := b.Recv(ctx)
		if err != nil || len(m.Files) != 2 {
			t.Fatalf("%d files, %v; expected 2", len(m.Files), err)
		}
		ipc.CloseFiles(m.Files)
		b.Release()
	}
}

// TestDialNoDescriptorLeft has the dialer's process reach its limit of descriptors before
// the listener answers. Dial says so when the time for the greeting is over, although the
// answer is there and its context has no end.
func TestDialNoDescriptorLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx := testContext(t)
	end, _ := ctx.Deadline()
	if err := l.SetDeadline(end); err != nil {
		t.Fatal(err)
	}
	dialed := make(chan error, 1)
	go func() {
		_, err := local.New().Dial(context.Background(), path, &ipc.Options{HandshakeTimeout: 100 * time.Millisecond})
		dialed <- err
	}()
	sock, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	if err := sock.SetDeadline(end); err != nil {
		t.Fatal(err)
	}
	if _, err := sock.Read(make([]byte, encoding.MaxHandshake)); err != nil {
		t.Fatal(err)
	}
	limitFiles(t, 4) // fewer than are open
	if _, _, err := sock.WriteMsgUnix([]byte("answer"), unix.UnixRights(ipc.Number(null), ipc.Number(null)), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-dialed:
		if err == nil || !strings.Contains(err.Error(), "no descriptor is left: this process may have 4 descriptors, raise it by ulimit -n") {
			t.Errorf("%v, expected that no descriptor is left, and the limit", err)
		}
	case <-ctx.Done():
		t.Error("Dial waits on")
	}
}

// TestFloodOfDescriptors has a client send descriptors without messages until the process
// has few left. Its conn ends, and others go on.
func TestFloodOfDescriptors(t *testing.T) {
	for _, role := range []ipc.Role{ipc.RoleClient, ipc.RoleUnknown} {
		t.Run(role.String(), func(t *testing.T) {
			ctx := testContext(t)
			const most = 256
			limitFiles(t, most)
			l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes})
			dial := func(role ipc.Role) (theirs, ours ipc.Conn) {
				c, err := local.New().Dial(ctx, path, &ipc.Options{Hello: ipc.Peer{Role: role}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c, accept(t, ctx, l)
			}
			honest, ours := dial(ipc.RoleClient)
			worker, alsoOurs := dial(ipc.RoleWorker)
			attacker, attacked := dial(role)
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			send := func(to, from ipc.Conn) {
				t.Helper()
				if _, err := to.Reserve(ctx, 7, 0); err != nil {
					t.Fatal(err)
				}
				if err := to.Commit(null); err != nil {
					t.Fatal(err)
				}
				m, err := from.Recv(ctx)
				if err != nil || len(m.Files) != 1 {
					t.Fatalf("%d files, %v; expected 1", len(m.Files), err)
				}
				ipc.CloseFiles(m.Files)
				from.Release()
			}
			send(honest, ours)
			fill(t, most-most/8-10) // ten more, and half of those that are kept are left
			fd := int(null.Fd())
			// no more than a conn may have on their way
			for range local.MaxPendingFiles {
				if _, _, err := local.Socket(attacker).WriteMsgUnix([]byte("x"), unix.UnixRights(fd), nil); err != nil && attacker.Err() == nil {
					t.Fatal(err)
				}
			}
			if _, err := attacked.Recv(ctx); !errors.Is(err, ipc.ErrCorrupt) || !strings.Contains(err.Error(), "256 descriptors, raise it by") {
				t.Fatalf("the conn of the client that floods: %v", err)
			}
			send(honest, ours)
			send(worker, alsoOurs)
		})
	}
}

// TestTooManyClients dials until a listener has no descriptor for another client. Open
// conns go on, and a worker is let in all the same.
func TestTooManyClients(t *testing.T) {
	ctx := testContext(t)
	const most = 256
	limitFiles(t, most)
	l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes})
	dial := func(role ipc.Role) error {
		c, err := local.New().Dial(ctx, path, &ipc.Options{Hello: ipc.Peer{Role: role}})
		if err == nil {
			t.Cleanup(func() { c.Close() })
			accept(t, ctx, l)
		}
		return err
	}
	want := fmt.Sprintf("too many clients: %v", limits.OpenFiles())
	for n := 0; ; n++ {
		err := dial(ipc.RoleClient)
		if err == nil && n < most {
			continue
		}
		if n < 20 || !errors.Is(err, ipc.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Fatalf("after %d clients: %v, expected %s", n, err, want)
		}
		break
	}
	if err := dial(ipc.RoleWorker); err != nil {
		t.Errorf("a worker: %v", err)
	}
}

// TestBusy has clients come while a listener has no room. Each hears how many are before
// it, and they are let in by the order in which they came.
func TestBusy(t *testing.T) {
	ctx := testContext(t)
	l, path := listen(t, &ipc.Options{RingBytes: ipc.MinRingBytes, Backlog: 1})
	first, err := local.New().Dial(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	page, err := local.NewWaiter()
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	answer := func(sock *net.UnixConn) []byte {
		buf := make([]byte, encoding.MaxHandshake)
		n, err := sock.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return buf[:n]
	}
	var waiting []*net.UnixConn
	for i := range 4 {
		sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		defer sock.Close()
		hello := encoding.AppendHello(nil, &encoding.Hello{Version: encoding.Version, Layout: 1, Name: fmt.Sprint(i)})
		if _, _, err := sock.WriteMsgUnix(hello, unix.UnixRights(ipc.Number(local.PageOf(page))), nil); err != nil {
			t.Fatal(err)
		}
		if b := ipc.ParseBusy(answer(sock)); b == nil || b.Before != i+1 {
			t.Fatalf("client %d hears %v, expected that %d are before it", i, b, i+1)
		}
		waiting = append(waiting, sock)
	}
	given, cancel := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := local.New().Dial(given, path, nil)
		gone <- err
	}()
	if accept(t, ctx, l).Peer().Name != "" {
		t.Error("the first client is not the first that is accepted")
	}
	for i, sock := range waiting {
		var m encoding.Welcome
		for err := errors.New("none"); err != nil; err = encoding.ParseWelcome(answer(sock), &m) {
		}
		if i < len(waiting)-1 {
			if c := accept(t, ctx, l); c.Peer().Name != fmt.Sprint(i) {
				t.Errorf("client %q is accepted, expected %d", c.Peer().Name, i)
			}
		}
	}
	cancel()
	var busy *ipc.BusyError
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that gave up: %v", err)
	} else if errors.As(err, &busy) && !strings.Contains(err.Error(), "busy, ") {
		t.Errorf("a client that gave up while it waited: %v", err)
	}
	if c := accept(t, ctx, l); c.Peer().Name != "3" {
		t.Errorf("client %q is accepted, expected 3", c.Peer().Name)
	}
}
