package ipc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc/lingertest"
)

// pair returns the ends of a pair of unix sockets. The second is closed with the test, if
// it was not before.
func pair(t *testing.T, kind int) (f, other *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, other = os.NewFile(uintptr(fds[0]), "queues"), os.NewFile(uintptr(fds[1]), "sends")
	t.Cleanup(func() { other.Close() })
	return f, other
}

// send queues files in the socket at the other end of f, and sets options of it.
func send(t *testing.T, f *os.File, data string, flags int, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, x := range files {
		fds = append(fds, int(x.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(int(f.Fd()), []byte(data), rights, nil, flags); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(files)
}

// within returns an end of a pair of unix sockets in which f alone is queued, with data.
// f is closed.
func within(t *testing.T, kind int, f *os.File, data string) *os.File {
	t.Helper()
	x, other := pair(t, kind)
	send(t, other, data, 0, f)
	f.Close()
	return x
}

// set sets an option of a socket.
func set(t *testing.T, f *os.File, option, value int) {
	t.Helper()
	if err := unix.SetsockoptInt(int(f.Fd()), unix.SOL_SOCKET, option, value); err != nil {
		t.Fatal(err)
	}
}

// nests are functions that queue f in a socket, each in another way, close f and return
// the socket.
var nests = map[string]func(t *testing.T, f *os.File) *os.File{
	"not at all": func(t *testing.T, f *os.File) *os.File { return f },
	"datagram":   func(t *testing.T, f *os.File) *os.File { return within(t, unix.SOCK_DGRAM, f, "x") },
	"packet":     func(t *testing.T, f *os.File) *os.File { return within(t, unix.SOCK_SEQPACKET, f, "x") },
	"stream":     func(t *testing.T, f *os.File) *os.File { return within(t, unix.SOCK_STREAM, f, "x") },
	"empty packet": func(t *testing.T, f *os.File) *os.File {
		return within(t, unix.SOCK_SEQPACKET, f, "")
	},
	"behind an empty packet": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		x, other := pair(t, unix.SOCK_SEQPACKET)
		send(t, other, "", 0)
		send(t, other, "", 0, f)
		return x
	},
	"behind bytes, of a stream": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		x, other := pair(t, unix.SOCK_STREAM)
		send(t, other, string(make([]byte, 100<<10)), 0)
		send(t, other, string(make([]byte, 50<<10)), 0, f)
		send(t, other, "more", 0)
		return x
	},
	"out of band": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		x, other := pair(t, unix.SOCK_STREAM)
		send(t, other, "x", unix.MSG_OOB, f)
		return x
	},
	"with every option": func(t *testing.T, f *os.File) *os.File {
		x := within(t, unix.SOCK_SEQPACKET, f, "four")
		for _, option := range []int{unix.SO_PASSPIDFD, unix.SO_PASSSEC, unix.SO_PASSCRED, unix.SO_TIMESTAMP} {
			set(t, x, option, 1)
		}
		set(t, x, unix.SO_PEEK_OFF, 4)
		return x
	},
	"of an end that was closed": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		x, other := pair(t, unix.SOCK_SEQPACKET)
		send(t, x, "not read", 0)
		send(t, other, "x", 0, f)
		other.Close() // a reset for x
		return x
	},
	"in a socket that listens": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial("unixpacket", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte("x"), unix.UnixRights(int(f.Fd())), nil); err != nil {
			t.Fatal(err)
		}
		x, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		return x
	},
	"many deep": func(t *testing.T, f *os.File) *os.File {
		kinds := []int{unix.SOCK_SEQPACKET, unix.SOCK_DGRAM, unix.SOCK_STREAM}
		for i := range 300 {
			f = within(t, kinds[i%3], f, "x")
		}
		return f
	},
	"among many": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		x, other := pair(t, unix.SOCK_SEQPACKET)
		for range 5 {
			in := make([]*os.File, 253)
			for i := range in {
				in[i] = f
			}
			send(t, other, "x", 0, in...)
		}
		return x
	},
	"beside itself": func(t *testing.T, f *os.File) *os.File {
		defer f.Close()
		x, other := pair(t, unix.SOCK_SEQPACKET)
		send(t, other, "x", 0, x, other, f)
		send(t, other, "x", 0, x, f)
		return x
	},
}

// settled waits until a closer has closed all of its files.
func settled(t *testing.T, x *closer) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		x.mu.Lock()
		running := x.running
		x.mu.Unlock()
		if running == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d closes wait", running)
		}
	}
}

// open returns how many descriptors this process has.
func open(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestLingeringSockets closes TCP sockets that linger for an hour, by themselves and
// queued in others: no close waits, and no descriptor is left.
func TestLingeringSockets(t *testing.T) {
	for name, nest := range nests {
		t.Run(name, func(t *testing.T) {
			x := closer{threads: func() int { return 1 << 40 }}
			for range 6 {
				f, letGo := lingertest.ForTest(t)
				defer letGo()
				f = nest(t, f)
				before := open(t)
				x.close(closing{file: f})
				settled(t, &x)
				if after := open(t); after != before-1 {
					t.Errorf("%d descriptors, %d before the close", after, before)
				}
				if n := draining.Load(); n != 0 {
					t.Fatalf("%d descriptors are counted after the close", n)
				}
			}
		})
	}
}

// TestPassedSockets closes a descriptor of a socket that was passed on: the process that
// has it still receives what is queued in it.
func TestPassedSockets(t *testing.T) {
	var x closer
	x.threads = func() int { return 1 << 40 }
	f, other := pair(t, unix.SOCK_SEQPACKET)
	send(t, other, "for the other", 0, other)
	fd, err := Duplicate(f)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fd), "theirs")
	defer theirs.Close()
	x.close(closing{f, true})
	settled(t, &x)
	b := make([]byte, 100)
	if n, err := theirs.Read(b); err != nil || string(b[:n]) != "for the other" {
		t.Errorf("%q, %v", b[:n], err)
	}
	if _, err := other.Write([]byte("more")); err != nil {
		t.Errorf("a write after the close: %v", err)
	}
}

// TestDrainEnds drains sockets whose other end is open or closed: the drain takes out all
// messages and then ends.
func TestDrainEnds(t *testing.T) {
	for name, kind := range map[string]int{"datagrams": unix.SOCK_DGRAM, "packets": unix.SOCK_SEQPACKET, "stream": unix.SOCK_STREAM} {
		for _, closed := range []bool{false, true} {
			f, other := pair(t, kind)
			for range 3 {
				send(t, other, "x", 0, other)
			}
			if closed {
				other.Close()
			}
			d := drain{left: 100}
			d.socket(int(f.Fd()))
			if took := 100 - d.left; took < 6 || took > 9 {
				t.Errorf("%s, closed %v: the drain took out %d, expected three messages, three descriptors, and the end", name, closed, took)
			}
			f.Close()
		}
	}
}

// TestDrainBounds queues more than a drain takes out, in one socket and in sockets in
// sockets. The drain ends, and leaves no descriptor open.
func TestDrainBounds(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	deep, _ := os.Open(os.DevNull)
	for range maxDraining + 10 {
		deep = within(t, unix.SOCK_SEQPACKET, deep, "x")
	}
	wide, other := pair(t, unix.SOCK_SEQPACKET)
	for range 10 {
		send(t, other, "x", 0, null)
	}
	for f, left := range map[*os.File]int{deep: maxDrained, wide: 8} {
		before := open(t)
		d := drain{left: left}
		d.socket(int(f.Fd()))
		if after := open(t); after != before || draining.Load() != 0 {
			t.Errorf("%d descriptors, %d are counted; %d before", after, draining.Load(), before)
		}
		f.Close()
	}
	var b [1]byte
	if _, err := other.Read(b[:]); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Error(fmt.Errorf("%w, expected the end", err))
	}
}
