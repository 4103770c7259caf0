package ipctest

import (
	"context"
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
	there, here := newQueue(l.options.RingBytes), newQueue(l.options.RingBytes)
	dialer := newPipeConn(l.options.Hello, there, here, o.Waiter)
	accepted := newPipeConn(o.Hello, here, there, l.options.Waiter)
	if err := l.push(accepted); err != nil {
		return nil, fmt.Errorf("%w at %s", err, addr)
	}
	return dialer, nil
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
	l := &pipeListener{network: n, addr: addr, options: o, news: o.Waiter}
	if l.news == nil {
		l.news = ipc.NewWaiter()
	}
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
	network *Network
	addr    string
	options ipc.Options
	news    ipc.Waiter

	mu     sync.Mutex
	ready  []*pipeConn
	closed bool
}

func (l *pipeListener) push(c *pipeConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ipc.ErrNoListener
	}
	if len(l.ready) >= l.options.Backlog {
		return fmt.Errorf("%w: %d conns wait to be accepted", ipc.ErrRefused, len(l.ready))
	}
	l.ready = append(l.ready, c)
	l.news.Wake()
	return nil
}

func (l *pipeListener) Addr() string { return l.addr }

func (l *pipeListener) tryAccept() (c *pipeConn, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.ready) == 0 {
		return nil, l.closed
	}
	c = l.ready[0]
	l.ready = l.ready[1:]
	return c, false
}

func (l *pipeListener) TryAccept() (ipc.Conn, bool) {
	if c, _ := l.tryAccept(); c != nil {
		return c, true
	}
	return nil, false
}

func (l *pipeListener) Accept(ctx context.Context) (ipc.Conn, error) {
	var c *pipeConn
	var closed bool
	if err := l.news.Wait(ctx, func() bool {
		c, closed = l.tryAccept()
		return c != nil || closed
	}); err != nil {
		return nil, err
	}
	if closed {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *pipeListener) Close() error {
	l.mu.Lock()
	closed, ready := l.closed, l.ready
	l.closed, l.ready = true, nil
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.network.mu.Lock()
	delete(l.network.listeners, l.addr)
	l.network.mu.Unlock()
	for _, c := range ready {
		c.Close()
	}
	l.news.Wake()
	return nil
}
