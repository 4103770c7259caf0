// Package lingertest has TCP sockets whose close waits, for tests.
package lingertest

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// linger is how many seconds the close of a socket waits.
const linger = 3600

// Socket returns a descriptor of a TCP socket with an hour of SO_LINGER and bytes that
// its peer doesn't read. The close of its last descriptor waits until letGo is called,
// and doesn't wait afterwards.
func Socket() (f *os.File, letGo func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	defer a.Close() // the caller's is another descriptor
	b, err := l.Accept()
	if err != nil {
		return nil, nil, err
	}
	if f, err = a.(*net.TCPConn).File(); err == nil {
		err = fill(f)
	}
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	// A peer that closes with unread bytes resets the connection.
	return f, func() { b.Close() }, nil
}

// ForTest is Socket for a test, at whose end letGo is called.
func ForTest(t testing.TB) (f *os.File, letGo func()) {
	t.Helper()
	f, letGo, err := Socket()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(letGo)
	return f, letGo
}

// fill writes to a socket until the peer's kernel takes no more, and has its close wait.
func fill(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if errControl := raw.Control(func(fd uintptr) {
		if err = syscall.SetNonblock(int(fd), true); err != nil {
			return
		}
		for block := make([]byte, 64<<10); err == nil; {
			_, err = syscall.Write(int(fd), block)
		}
		if err != syscall.EAGAIN {
			return
		}
		// A socket that does not block does not linger.
		if err = syscall.SetNonblock(int(fd), false); err != nil {
			return
		}
		err = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: linger})
	}); errControl != nil {
		return errControl
	}
	return err
}
