package route

import (
	"context"
	"errors"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/net/tcp"
)

// Order is every transport, the best first. Each call makes new ones; they cost nothing
// until used.
func Order() []ipc.Transport { return []ipc.Transport{local.New(), tcp.New()} }

// Apart returns the transports of Order whose conns share no memory, for ends that are to
// have bulk transfers even on one host.
func Apart() []ipc.Transport { return far(Order()) }

// far returns the transports of order whose conns share no memory.
func far(order []ipc.Transport) []ipc.Transport {
	return slices.DeleteFunc(slices.Clone(order), ipc.Transport.SharesMemory)
}

// Dial opens a conn to the listener at one of the addresses, with the first transport of
// order that reaches one and gets through. The error names every address that was tried.
func Dial(ctx context.Context, order []ipc.Transport, addrs []string, o *ipc.Options) (ipc.Conn, error) {
	var failed []error
	for _, t := range order {
		for _, addr := range addrs {
			if !t.Reaches(addr) {
				continue
			}
			c, err := t.Dial(ctx, addr, o)
			if err == nil {
				return c, nil
			}
			failed = append(failed, err)
		}
	}
	if failed == nil {
		return nil, noRoute(addrs...)
	}
	return nil, errors.Join(failed...)
}

// Listen opens a listener with the first transport of order that reaches addr.
func Listen(order []ipc.Transport, addr string, o *ipc.Options) (ipc.Listener, error) {
	for _, t := range order {
		if t.Reaches(addr) {
			return t.Listen(addr, o)
		}
	}
	return nil, noRoute(addr)
}
