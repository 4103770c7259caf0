package local_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
)

// met is how an offer ended.
type met struct {
	conn ipc.Conn
	err  error
}

// offer makes an offer whose end comes over the channel.
func offer(t *testing.T, o *ipc.Options) (theirs *os.File, cancel func(), end chan met) {
	t.Helper()
	end = make(chan met, 1)
	theirs, cancel, err := local.New().Offer(o, func(c ipc.Conn, err error) { end <- met{c, err} })
	if err != nil {
		t.Fatal(err)
	}
	return theirs, cancel, end
}

func offerContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestOffer: a conn that was handed over by descriptor carries messages and files both
// ways, names its peer, and ends as any does.
func TestOffer(t *testing.T) {
	ctx := offerContext(t)
	theirs, _, end := offer(t, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: "w"}})
	b, err := local.New().Take(ctx, theirs, &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m := <-end
	if m.err != nil {
		t.Fatal(m.err)
	}
	a := m.conn
	defer a.Close()
	if !a.Features().Files || !b.Features().Files {
		t.Error("no conns of this transport")
	}
	if p := a.Peer(); p.Name != "c" || p.Role != ipc.RoleClient || p.PID != os.Getpid() || p.UID != -1 || p.GID != -1 {
		t.Errorf("who offered sees %+v", p)
	}
	if p := b.Peer(); p.Name != "w" || p.Role != ipc.RoleWorker || p.PID != os.Getpid() || p.UID != os.Getuid() {
		t.Errorf("who took it sees %+v", p)
	}
	for _, way := range [][2]ipc.Conn{{a, b}, {b, a}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		buf, err := way[0].Reserve(ctx, 7, 5)
		if err != nil {
			t.Fatal(err)
		}
		copy(buf, "hello")
		if err := way[0].Commit(w); err != nil {
			t.Fatal(err)
		}
		w.Close()
		got, err := way[1].Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got.Kind != 7 || string(got.Body) != "hello" || len(got.Files) != 1 {
			t.Fatalf("kind %d, %q, %d files", got.Kind, got.Body, len(got.Files))
		}
		_, _ = got.Files[0].WriteString("through")
		got.Files[0].Close()
		way[1].Release()
		if text, err := io.ReadAll(r); err != nil || string(text) != "through" {
			t.Errorf("%q, %v", text, err)
		}
	}
	b.Close()
	if _, err := a.Recv(ctx); !errors.Is(err, ipc.ErrPeerGone) {
		t.Errorf("%v after the other end closed", err)
	}
}

// TestOfferIsNotTaken: an offer ends when its descriptor is closed everywhere, when it is
// called off, and in time.
func TestOfferIsNotTaken(t *testing.T) {
	ctx := offerContext(t)
	for name, let := range map[string]func(theirs *os.File, cancel func()){
		"closed":     func(theirs *os.File, _ func()) { theirs.Close() },
		"called off": func(_ *os.File, cancel func()) { cancel() },
		"late":       func(*os.File, func()) {},
	} {
		t.Run(name, func(t *testing.T) {
			o := &ipc.Options{}
			if name == "late" {
				o.HandshakeTimeout = time.Millisecond
			}
			theirs, cancel, end := offer(t, o)
			defer theirs.Close()
			let(theirs, cancel)
			select {
			case m := <-end:
				if m.err == nil || m.conn != nil {
					t.Errorf("%v, %v", m.conn, m.err)
				}
			case <-ctx.Done():
				t.Fatal("the offer stands")
			}
		})
	}
}

// TestTakeChecks wants Take to return an error for descriptors that are no offer, and to
// close them soon.
func TestTakeChecks(t *testing.T) {
	ctx := offerContext(t)
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	pair := func(kind int) *os.File {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fds[1])
		return os.NewFile(uintptr(fds[0]), "pair")
	}
	for name, c := range map[string]struct {
		f    *os.File
		want error
	}{
		"a file":              {file, ipc.ErrCorrupt},
		"a stream":            {pair(unix.SOCK_STREAM), ipc.ErrCorrupt},
		"nobody at the other": {pair(unix.SOCK_SEQPACKET), ipc.ErrPeerGone},
	} {
		if conn, err := local.New().Take(ctx, c.f, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v; expected %v", name, conn, err, c.want)
		}
		for ipc.Number(c.f) != -1 {
			if runtime.Gosched(); ctx.Err() != nil {
				t.Fatalf("%s: it was left open", name)
			}
		}
	}
}

// TestOptionsOfTaken: a process that handed on the descriptor of an offer has the kernel
// add to the datagrams of the socket. The conn of the process that took it ends, and no
// descriptor is left.
func TestOptionsOfTaken(t *testing.T) {
	ctx := offerContext(t)
	open := own(t)[0]
	for name, option := range map[string]int{"the sender's process": unix.SO_PASSPIDFD, "its credentials": unix.SO_PASSCRED} {
		for _, early := range []bool{true, false} {
			theirs, cancel, end := offer(t, nil)
			held, err := ipc.Duplicate(theirs)
			if err != nil {
				t.Fatal(err)
			}
			set := func() {
				if err := unix.SetsockoptInt(held, unix.SOL_SOCKET, option, 1); err != nil {
					t.Fatal(err)
				}
			}
			if early {
				set()
			}
			b, err := local.New().Take(ctx, theirs, nil)
			if early {
				if !errors.Is(err, ipc.ErrCorrupt) {
					t.Errorf("%s: Take: %v, expected ErrCorrupt", name, err)
				}
				unix.Close(held)
				cancel()
				if m := <-end; m.conn != nil {
					m.conn.Close()
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			a := (<-end).conn
			set()
			if _, err := a.Reserve(ctx, 1, 8); err != nil {
				t.Fatal(err)
			}
			// b may find out before the message is complete.
			if err := a.Commit(slices.Repeat([]*os.File{os.Stderr}, ipc.MaxFiles)...); err != nil && !errors.Is(err, ipc.ErrPeerGone) {
				t.Fatal(err)
			}
			if m, err := b.Recv(ctx); !errors.Is(err, ipc.ErrCorrupt) {
				t.Errorf("%s: a message with %d files: %v, expected ErrCorrupt", name, len(m.Files), err)
			}
			unix.Close(held)
			a.Close()
			b.Close()
		}
	}
	for own(t)[0] > open {
		if runtime.Gosched(); ctx.Err() != nil {
			t.Fatalf("%d descriptors, %d before", own(t)[0], open)
		}
	}
}
