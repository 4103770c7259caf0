package ipctest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/ringside-go/ringside/ipc"
)

// Network is an ipc.Transport within one process: messages are copied on the heap, files
// are duplicated, and what waits, waits on channels, so that it works within
// testing/synctest. Addresses are "pipe:" and any name; "pipe:" alone picks a free one.
// The zero value is ready.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
	picked    int
}

var _ ipc.Transport = (*Network)(nil)

const pipePrefix = "pipe:"

// Name is "pipe".
func (n *Network) Name() string { return "pipe" }

// Reaches says yes to its own addresses.
func (n *Network) Reaches(addr string) bool { return strings.HasPrefix(addr, pipePrefix) }

func prepare(options *ipc.Options) (ipc.Options, error) {
	o, err := options.WithDefaults()
	if err != nil {
		return o, err
	}
	o.Hello.PID, o.Hello.UID, o.Hello.GID = os.Getpid(), os.Getuid(), os.Getgid()
	return o, nil
}

// Dial opens a conn to a listener of this network.
func (n *Network) Dial(ctx context.Context, addr string, options *ipc.Options) (ipc.Conn, error) {
	o, err := prepare(options)
	if err != nil {
		return nil, err
	}
	if err := ipc.ContextError(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("%w at %s", ipc.ErrNoListener, addr)
	}
	if o.Hello.Version != l.options.Hello.Version {
		return nil, fmt.Errorf("%w: %w: version %d, expected %d", ipc.ErrRefused, ipc.ErrVersion,
			o.Hello.Version, l.options.Hello.Version)
	}
	var busy *ipc.BusyError
	if err := l.Enter(ctx, func(before int) error { busy = &ipc.BusyError{Before: before}; return nil }); err != nil {
		if errors.Is(err, net.ErrClosed) {
			err = fmt.Errorf("%w at %s", ipc.ErrNoListener, addr)
		}
		return nil, ipc.DialError(ctx, err, busy)
	}
	ends := newPipe(l.options.RingBytes, [2]ipc.Peer{l.options.Hello, o.Hello}, [2]ipc.Waiter{o.Waiter, l.options.Waiter})
	if !l.Add(ends[1]) {
		return nil, fmt.Errorf("%w at %s", ipc.ErrNoListener, addr)
	}
	return ends[0], nil
}

// Listen opens a listener.
func (n *Network) Listen(addr string, options *ipc.Options) (ipc.Listener, error) {
	o, err := prepare(options)
	if err != nil {
		return nil, err
	}
	if !n.Reaches(addr) {
		return nil, fmt.Errorf("ipctest: address %q does not begin with %q", addr, pipePrefix)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for addr == pipePrefix {
		n.picked++
		if name := fmt.Sprintf("%s#%d", pipePrefix, n.picked); n.listeners[name] == nil {
			addr = name
		}
	}
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("%w: %s (pid %d)", ipc.ErrAddrInUse, addr, os.Getpid())
	}
	news := o.Waiter
	if news == nil {
		news = ipc.NewWaiter()
	}
	l := &pipeListener{Arrivals: ipc.NewArrivals[*pipeConn](news, o.Backlog, o.Backlog), network: n, addr: addr, options: o}
	if n.listeners == nil {
		n.listeners = map[string]*pipeListener{}
	}
	n.listeners[addr] = l
	return l, nil
}

// SharesMemory returns true.
func (n *Network) SharesMemory() bool { return true }

// ListenAny opens a listener at a free address.
func (n *Network) ListenAny(_ ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	l, err := n.Listen(pipePrefix, o)
	if err != nil {
		return nil, nil, err
	}
	return l, []string{l.Addr()}, nil
}

type pipeListener struct {
	*ipc.Arrivals[*pipeConn]
	network *Network
	addr    string
	options ipc.Options
}

func (l *pipeListener) Addr() string { return l.addr }

func (l *pipeListener) Close() error {
	l.network.mu.Lock()
	if l.network.listeners[l.addr] == l {
		delete(l.network.listeners, l.addr)
	}
	l.network.mu.Unlock()
	l.Arrivals.Close()
	return nil
}
