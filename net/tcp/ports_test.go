package tcp

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// TestNoPort wants a host without ports told apart from an address without a listener,
// from one that this host has no address of its own to reach from, and from one that is
// in use.
func TestNoPort(t *testing.T) {
	failed := func(errno unix.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	for _, c := range []struct {
		err       error
		want, not error
		port      bool
	}{
		{unconnected("127.0.0.1:7000", failed(unix.EADDRNOTAVAIL)), unix.EADDRNOTAVAIL, ipc.ErrNoListener, true},
		{unconnected("127.0.0.1:0", failed(unix.EADDRNOTAVAIL)), ipc.ErrNoListener, nil, false},
		{unconnected("[fe80::1%none]:7000", failed(unix.EADDRNOTAVAIL)), ipc.ErrNoListener, nil, false},
		{unconnected("127.0.0.1:7000", failed(unix.ECONNREFUSED)), ipc.ErrNoListener, nil, false},
		{unconnected("127.0.0.1:7000", failed(unix.ENETUNREACH)), unix.ENETUNREACH, ipc.ErrNoListener, false},
		{unlistened(":0", failed(unix.EADDRINUSE)), unix.EADDRINUSE, ipc.ErrAddrInUse, true},
		{unlistened(":7000", failed(unix.EADDRINUSE)), ipc.ErrAddrInUse, nil, false},
		{unlistened(":7000", failed(unix.EACCES)), unix.EACCES, ipc.ErrAddrInUse, false},
	} {
		if !errors.Is(c.err, c.want) || c.not != nil && errors.Is(c.err, c.not) || strings.Contains(c.err.Error(), "no port left") != c.port {
			t.Errorf("%v: expected %v and not %v, and that there is no port left: %v", c.err, c.want, c.not, c.port)
		}
	}
}
