package local_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ipc/lingertest"
	"github.com/ringside-go/ringside/ipc/local"
)

// nested returns an end of a pair of unix sockets, in which a lingering socket is queued
// that has no other descriptor.
func nested(t testing.TB) (f *os.File, letGo func()) {
	t.Helper()
	inner, letGo := lingertest.ForTest(t)
	defer inner.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	if err := unix.Sendmsg(fds[1], []byte("x"), unix.UnixRights(int(inner.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "nested"), letGo
}

// TestNeverWaitsInClose has a client send descriptors whose close waits for an hour, in
// messages and in a greeting. The goroutine that receives closes them, and goes on to
// answer a second client.
func TestNeverWaitsInClose(t *testing.T) {
	for name, slow := range map[string]func(testing.TB) (*os.File, func()){
		"TCP socket": lingertest.ForTest, "queued in a unix socket": nested,
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			attacker, err := s.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer attacker.Close()
			f, letGo := slow(t)
			defer letGo()
			// Ahead of their message, so that the service's descriptor is the last.
			if _, _, err := local.Socket(attacker).WriteMsgUnix(make([]byte, 8), unix.UnixRights(int(f.Fd())), nil); err != nil {
				letGo()
				t.Fatal(err)
			}
			f.Close()
			if _, err := attacker.Reserve(s.ctx, 1, 8); err != nil {
				t.Fatal(err)
			}
			local.Announce(attacker, 1)
			// The answer says that the service has closed the message's files.
			if m, err := attacker.Recv(s.ctx); err != nil || m.Kind != 1 {
				t.Fatalf("%v, %v", m, err)
			}
			attacker.Release()
			second, err := s.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			s.ask(second, 1)
		})
	}
}

// TestNeverWaitsInGreeting has more clients than are greeted at a time send a Hello with
// a descriptor whose close waits, as the page of bells or queued behind the Hello. The
// next client is let in.
func TestNeverWaitsInGreeting(t *testing.T) {
	ctx := testContext(t)
	path, open := filepath.Join(socketDir(t), "s"), make(chan struct{})
	l, err := local.Stepping(func(step string) {
		if step == "greet: accepts" {
			<-open
		}
	}).Listen(path, &ipc.Options{RingBytes: ipc.MinRingBytes, HandshakeTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() *net.UnixConn {
		sock, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		return sock
	}
	// While the listener accepts none, the clients wait in the kernel's queue: the
	// descriptors that they have sent are the last.
	hello := encoding.AppendHello(nil, &encoding.Hello{Version: encoding.Version, Layout: 1, RingBytes: ipc.MinRingBytes, RoomBell: 128})
	for i := range local.MaxHandshakes + 6 {
		f, letGo := lingertest.ForTest(t)
		defer letGo()
		sock := dial()
		defer sock.Close()
		with, behind := unix.UnixRights(int(f.Fd())), []byte(nil)
		if i%2 == 1 {
			with, behind = behind, with
		}
		_, _, err := sock.WriteMsgUnix(hello, with, nil)
		if err == nil {
			_, _, err = sock.WriteMsgUnix([]byte("x"), behind, nil)
		}
		if err != nil {
			letGo()
			t.Fatal(err)
		}
		f.Close()
	}
	close(open)
	second, err := local.New().Dial(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
	accept(t, ctx, l)
}
