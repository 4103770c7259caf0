package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

// Transport makes conns over TCP. Safe for concurrent use.
type Transport struct {
	sums      uint8         // noSums or wantSums
	beatEvery time.Duration // beatEvery but in tests

	buffers buffers // of conns with TLS

	mu     sync.Mutex
	poller *poller // while there are conns
	users  int     // of it
}

var _ ipc.Transport = (*Transport)(nil)

// quiet stops netpoll from writing to standard error, where it reports every connection
// that was reset: the conn's owner is told of that in any case.
var quiet = sync.OnceFunc(func() { netpoll.SetLoggerOutput(io.Discard) })

// New returns a transport. It costs nothing until it has conns. The first one of a
// process silences netpoll's log, which is the whole process's: a program that wants to
// have it calls netpoll.SetLoggerOutput after New and before it has conns.
func New() *Transport {
	quiet()
	return &Transport{sums: wantSums, beatEvery: beatEvery}
}

// NewUnchecked returns a transport whose conns have no checksums if the other end's has
// none either. A change on the way that TCP's own checksum misses is a wrong value then.
func NewUnchecked() *Transport {
	t := New()
	t.sums = noSums
	return t
}

// sumsOf returns whether an end with these options wants checksums. TLS has better ones.
func (t *Transport) sumsOf(o *ipc.Options) uint8 {
	if o.TLS != nil {
		return noSums
	}
	return t.sums
}

// Name is "tcp".
func (*Transport) Name() string { return "tcp" }

// Reaches says yes to host:port.
func (*Transport) Reaches(addr string) bool { return checkAddr(addr) == nil }

// checkAddr says whether addr is host:port, with a number for a port.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrAddress, addr, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%w: %q: port %q, expected a number up to 65535", ErrAddress, addr, port)
	}
	if strings.ContainsAny(host, "/ \t\n") {
		return fmt.Errorf("%w: %q", ErrAddress, addr)
	}
	return nil
}

// acquire returns the poller that all conns of the transport share. The caller calls
// release when it is done.
func (t *Transport) acquire() (*poller, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.poller == nil {
		p, err := newPoller(t.beatEvery)
		if err != nil {
			return nil, err
		}
		t.poller = p
	}
	t.users++
	return t.poller, nil
}

func (t *Transport) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 {
		t.poller.close()
		t.poller = nil
	}
}

// Dial connects to the listener at addr, host:port.
func (t *Transport) Dial(ctx context.Context, addr string, options *ipc.Options) (ipc.Conn, error) {
	o, err := options.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkAddr(addr); err != nil {
		return nil, fmt.Errorf("%w: %w", ipc.ErrNoListener, err)
	}
	c, err := t.dial(ctx, addr, &o)
	if err != nil {
		return nil, fmt.Errorf("tcp: dial %s: %w", addr, err)
	}
	return c, nil
}

// dial opens the two sockets of a conn.
func (t *Transport) dial(ctx context.Context, addr string, o *ipc.Options) (ipc.Conn, error) {
	own := o.Introduce(0)
	messages, w, err := connect(ctx, addr, o, &hello{sums: t.sumsOf(o), wire: encoding.AppendHello(nil, &own)})
	if err != nil {
		return nil, err
	}
	m, err := ipc.ParseWelcome(w.wire)
	if err != nil {
		messages.Close()
		return nil, err
	}
	bulk, _, err := connect(ctx, messages.RemoteAddr().String(), o, &hello{bulk: true, token: w.token})
	if err != nil {
		messages.Close()
		return nil, fmt.Errorf("bulk socket: %w", err)
	}
	return t.newConn(messages, bulk, w.streams(true), ipc.PeerOf(m), int(m.RingBytes), o, ipc.NewWarnings(o.Logger))
}

// connect opens one connection, greetings included.
func connect(ctx context.Context, addr string, o *ipc.Options, h *hello) (greeted, welcome, error) {
	var busy *ipc.BusyError
	c, w, err := greetListener(ctx, addr, o, h, &busy)
	if err != nil {
		err = ipc.DialError(ctx, err, busy)
	}
	return c, w, err
}

// noPort says what to do where the kernel finds no port for this end of a connection or
// for a listener.
const noPort = "this host has no port left: have fewer connections, or more ports (sysctl net.ipv4.ip_local_port_range)"

// unconnected is the error of connecting to addr: ErrNoListener if no process can listen
// there.
func unconnected(addr string, err error) error {
	refused, noAddr := errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EADDRNOTAVAIL)
	if !refused && !noAddr {
		return err
	}
	to := addr
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without the address, which Dial's error has
		if op.Addr != nil {
			to = op.Addr.String() // no name
		}
	}
	if _, port, _ := net.SplitHostPort(addr); noAddr && port != "0" && hasSource(to) {
		return fmt.Errorf("%w: %s", err, noPort)
	}
	return fmt.Errorf("%w: %w", ipc.ErrNoListener, err)
}

// hasSource reports whether this host has an address of its own from which it can send
// to addr. One without IPv6 has none for [::1], and the kernel's error is the same as for
// want of a port. UDP has ports of its own, and its connect sends nothing.
func hasSource(addr string) bool {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// greetListener is connect that says by busy whether the listener was busy when it was
// last heard.
func greetListener(ctx context.Context, addr string, o *ipc.Options, h *hello, busy **ipc.BusyError) (greeted, welcome, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return greeted{}, welcome{}, unconnected(addr, err)
	}
	c := nc.(*net.TCPConn)
	_ = c.SetDeadline(time.Now().Add(o.HandshakeTimeout))
	cancel := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer cancel()
	s, err := dialTLS(ctx, c, o)
	if err != nil {
		c.Close()
		return greeted{}, welcome{}, dialError(err, s, o)
	}
	g := newGreeter(within(c, s), o.Secret)
	g.busy = func(b *ipc.BusyError) error {
		*busy = b
		_ = c.SetDeadline(time.Now().Add(o.HandshakeTimeout))
		return ipc.ContextError(ctx) // cancel may have set its deadline before
	}
	w, err := g.dial(h)
	if err == nil {
		err = tune(c)
	}
	if err != nil {
		c.Close()
		return greeted{}, w, dialError(err, s, o)
	}
	return greeted{c, s}, w, nil
}

// dialError returns the dialer's error for an error of the greetings.
func dialError(err error, s *sealed, o *ipc.Options) error {
	if s != nil {
		err = tlsError(err, "listener", o)
	}
	switch {
	case errors.Is(err, errAlien):
		return fmt.Errorf("%w: %w", ipc.ErrNotRingside, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return fmt.Errorf("%w during the handshake", ipc.ErrPeerGone)
	}
	return err
}

// needsSecret says whether a listener at this address can be reached from other hosts.
func needsSecret(addr net.Addr) bool {
	ap, err := netip.ParseAddrPort(addr.String())
	return err != nil || !ap.Addr().IsLoopback()
}
