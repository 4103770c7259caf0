package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// maxHandshakes bounds how many strangers are being greeted at a time, see
	// ipc.Strangers; and likewise how many of hosts whose peers have proved the secret
	// before, which strangers of other hosts can't displace.
	maxHandshakes = 512

	// leastGreeting is how long a stranger has, however many come: more than a peer
	// needs that knows the secret. Meanwhile further ones wait.
	leastGreeting = time.Second / 4

	// maxWaiting bounds the strangers that wait for room; further ones are hung up on.
	maxWaiting = 4096

	// roomEvery is how often a connection looks for a handshake that has ended by itself.
	roomEvery = 10 * time.Millisecond

	// maxKnown bounds the hosts that are remembered for that.
	maxKnown = 1024

	// firstByte is how long a stranger may say nothing while fewSilent of them or more
	// are being greeted. Otherwise it may for Options.HandshakeTimeout, since a proper
	// peer of a busy host is sometimes late.
	firstByte = time.Second
	fewSilent = maxHandshakes / 4

	// refusedTimeout and refusedBytes bound what is still read from a peer that was
	// refused.
	refusedTimeout = time.Second / 2
	refusedBytes   = 64 << 10
)

type listener struct {
	*ipc.Arrivals[*conn]
	transport *Transport
	options   ipc.Options
	tls       *tls.Config // nil without TLS
	sock      *net.TCPListener

	refused  atomic.Uint64
	warnings *ipc.Warnings // of peers that are not let in or break the protocol

	// Handshakes without a proof yet: those of known hosts, and others.
	familiar, strangers *ipc.Strangers[*net.TCPConn]

	queue *queue // strangers that wait for room

	mu       sync.Mutex
	dialing  map[*net.TCPConn]struct{} // handshakes under way
	known    []netip.Addr              // hosts that have proved the secret, newest last
	expected map[token]chan<- greeted  // bulk sockets that are to come, each once
	closed   bool
}

// Listen opens a listener at addr, host:port. Port 0 is any free one, and no host is
// every address of this one. Without a secret only loopback addresses are taken.
func (t *Transport) Listen(addr string, options *ipc.Options) (ipc.Listener, error) {
	o, err := options.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkAddr(addr); err != nil {
		return nil, err
	}
	config, err := tlsConfig(&o)
	if err != nil {
		return nil, err
	}
	nl, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, unlistened(addr, err)
	}
	if len(o.Secret) == 0 && needsSecret(nl.Addr()) {
		nl.Close()
		return nil, fmt.Errorf("%w: no Secret, and %s can be reached from other hosts", ipc.ErrBadOption, nl.Addr())
	}
	l := &listener{
		transport: t, options: o, tls: config, sock: nl.(*net.TCPListener),
		dialing:   map[*net.TCPConn]struct{}{},
		expected:  map[token]chan<- greeted{},
		queue:     newQueue(maxWaiting),
		warnings:  ipc.NewWarnings(o.Logger),
		familiar:  ipc.NewStrangers(maxHandshakes, leastGreeting, expire),
		strangers: ipc.NewStrangers(maxHandshakes, leastGreeting, expire),
	}
	news := o.Waiter
	if news == nil {
		news = ipc.NewWaiter()
	}
	l.Arrivals = ipc.NewArrivals[*conn](news, o.Backlog, o.Backlog)
	go l.accept()
	go l.admitStrangers()
	return l, nil
}

// unlistened is the error of listening at addr: ErrAddrInUse if a process has the port. 0
// asks for any port, which no process has.
func unlistened(addr string, err error) error {
	_, port, _ := net.SplitHostPort(addr)
	switch inUse := errors.Is(err, unix.EADDRINUSE); {
	case inUse && port == "0":
		return fmt.Errorf("tcp: %w: %s", err, noPort)
	case inUse:
		return fmt.Errorf("%w: %s", ipc.ErrAddrInUse, addr)
	}
	return fmt.Errorf("tcp: %w", err)
}

func (l *listener) Addr() string { return l.sock.Addr().String() }

// Refused returns the number of peers that were refused: other protocols, other versions,
// those without the secret, and those for which there are no descriptors.
func (l *listener) Refused() uint64 { return l.refused.Load() }

// Close also ends the handshakes under way.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for c := range l.dialing {
		expire(c)
	}
	for t, arrived := range l.expected {
		delete(l.expected, t)
		close(arrived)
	}
	l.mu.Unlock()
	err := l.sock.Close()
	l.Arrivals.Close()
	l.warnings.Close()
	return err
}

// accept takes connections until the listener is closed.
func (l *listener) accept() {
	defer l.queue.end()
	for {
		c, err := l.sock.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely. The peer waits in the kernel's queue; try
			// again when some handshake may have given one back.
			l.warnings.Warn("accept", "accept failed", "addr", l.Addr(), "err", err)
			<-time.After(time.Second / 10)
			continue
		}
		if l.slotsOf(c) == l.familiar {
			l.begin(c, l.familiar)
			continue
		}
		if !l.queue.put(c) {
			c.Close() // as the kernel's queue would
		}
	}
}

// admitStrangers begins the handshakes of strangers until accept ends. They wait for room
// here, so that peers of known hosts don't wait for them.
func (l *listener) admitStrangers() {
	for c := l.queue.take(); c != nil; c = l.queue.take() {
		l.begin(c, l.strangers)
	}
}

// begin begins a handshake when there is room.
func (l *listener) begin(c *net.TCPConn, slots *ipc.Strangers[*net.TCPConn]) {
	for !slots.MakeRoom() && !l.isClosed() {
		<-time.After(roomEvery)
	}
	if !l.register(c, slots) {
		c.Close()
		return
	}
	go l.greet(c, slots)
}

// expire has all that is done with a connection fail.
func expire(c *net.TCPConn) { _ = c.SetDeadline(time.Unix(1, 0)) }

// greet does one handshake, which has one of slots until there is a proof.
func (l *listener) greet(c *net.TCPConn, slots *ipc.Strangers[*net.TCPConn]) {
	admitted := false
	l.awaitFirst(c, slots)
	made, caller, err := l.handshake(c, func() {
		admitted = true
		slots.Remove(c)
		l.remember(hostOf(c))
	})
	defer slots.Remove(c) // after hangUp, which holds the socket
	l.mu.Lock()
	delete(l.dialing, c)
	l.mu.Unlock()
	switch {
	case made != nil:
		if !l.Add(made) {
			made.Close()
		}
	case err != nil:
		hangUp(c)
		args := []any{"addr", l.Addr(), "peer", caller.Addr, "err", err}
		switch refused := l.options.Refused; {
		// a dialer that tries several addresses goes on with one
		case errors.Is(err, net.ErrClosed), errors.Is(err, errGivenUp):
			l.options.Logger.Debug("handshake failed", args...)
		case refused != nil:
			refused(caller, err)
		default:
			l.warnings.Warn(failure(err, admitted), "handshake failed", args...)
		}
	}
}

// failure returns the kind of a failed handshake for the log: strangers hide no failure
// of peers that know the secret, nor any that the user can mend.
func failure(err error, admitted bool) string {
	switch {
	case errors.Is(err, ipc.ErrVersion):
		return "version"
	case errors.Is(err, ipc.ErrSecret):
		return "secret"
	case errors.Is(err, ipc.ErrTLS):
		return "tls"
	case admitted:
		return "admitted"
	}
	return "stranger"
}

// hangUp closes a connection whose peer may not have read the reason yet. It reads from
// it for a moment, since the kernel discards unsent bytes of an end that closes with
// something unread.
func hangUp(c *net.TCPConn) {
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(refusedTimeout))
	_, _ = io.CopyN(io.Discard, c, refusedBytes)
	c.Close()
}

// slotsOf returns what a connection needs a slot of.
func (l *listener) slotsOf(c *net.TCPConn) *ipc.Strangers[*net.TCPConn] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.known, hostOf(c)) {
		return l.familiar
	}
	return l.strangers
}

func (l *listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// register notes a connection whose handshake begins, for which there is a slot. It
// returns false once the listener is closed.
func (l *listener) register(c *net.TCPConn, slots *ipc.Strangers[*net.TCPConn]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	_ = c.SetDeadline(time.Now().Add(min(firstByte, l.options.HandshakeTimeout)))
	l.dialing[c] = struct{}{}
	slots.Add(c, hostOf(c))
	return true
}

// awaitFirst waits until the peer has said something, for firstByte at most if many say
// nothing. From then on it has the rest of the handshake's time.
func (l *listener) awaitFirst(c *net.TCPConn, slots *ipc.Strangers[*net.TCPConn]) {
	if ipc.AwaitFirst(c) != nil && slots.Len() >= fewSilent {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		slots.Goes(c, func() { _ = c.SetDeadline(time.Now().Add(l.options.HandshakeTimeout)) })
	}
}

// remember notes that a peer of a host has proved the secret.
func (l *listener) remember(host netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = append(slices.DeleteFunc(l.known, func(a netip.Addr) bool { return a == host }), host)
	if len(l.known) > maxKnown {
		l.known = slices.Delete(l.known, 0, 1)
	}
}

// hostOf returns the address of the peer's host. Of IPv6 that is the network: a host
// chooses the rest as it likes.
func hostOf(c *net.TCPConn) netip.Addr {
	a := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if a.Is4() {
		return a
	}
	network, _ := a.Prefix(64) // of an address of 128 bits
	return network.Addr()
}

// expect says that the bulk socket with this token may come. Whatever comes or does not,
// forget is called afterwards.
func (l *listener) expect(t token) (arrived <-chan greeted, ok bool) {
	ch := make(chan greeted, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false
	}
	l.expected[t] = ch
	return ch, true
}

func (l *listener) forget(t token, arrived <-chan greeted) {
	l.mu.Lock()
	delete(l.expected, t)
	l.mu.Unlock()
	select {
	case c := <-arrived:
		if c.TCPConn != nil {
			c.Close()
		}
	default:
	}
}

// deliver hands a bulk socket to the handshake that expects it, once.
func (l *listener) deliver(t token, c greeted) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	arrived := l.expected[t]
	if arrived == nil {
		return false
	}
	delete(l.expected, t)
	delete(l.dialing, c.TCPConn)
	arrived <- c
	return true
}
