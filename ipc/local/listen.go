package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// maxHandshakes bounds how many peers at a time are let in or have their Hello read;
	// further ones wait in the kernel's queue. With few descriptors there are fewer, so
	// that a quarter of those that are kept is enough for the socket of each and what
	// comes with it.
	maxHandshakes = 64

	// maxSilent bounds the peers that have connected and said nothing, see ipc.Strangers.
	// Only few proper ones are ever among them: a Hello follows the connection at once,
	// and so is there when the connection is accepted. Each has a socket; with few
	// descriptors there are fewer.
	maxSilent = 64

	// leastSilent is how long one of them has, however many come.
	leastSilent = 20 * time.Millisecond

	// firstByte is how long one may say nothing while a quarter of maxSilent do.
	// Otherwise it may for Options.HandshakeTimeout.
	firstByte = time.Second

	// roomEvery is how often accept looks for room for a silent one.
	roomEvery = 5 * time.Millisecond
)

type listener struct {
	*ipc.Arrivals[*conn]
	greeter
	path string
	sock *net.UnixListener
	lock *lock

	greeting chan struct{} // one slot for every peer whose Hello is read
	silent   *ipc.Strangers[*net.UnixConn]
	few      int // so many silent ones are few

	mu      sync.Mutex
	dialing map[*net.UnixConn]struct{} // handshakes under way
	closed  bool
}

// Listen opens a listener on the socket at path. The directory must be this user's, see
// PrepareDir. A socket that a dead process left there is replaced.
func (t Transport) Listen(path string, options *ipc.Options) (ipc.Listener, error) {
	o, err := options.WithDefaults()
	if err != nil {
		return nil, err
	}
	handshakes := max(1, min(maxHandshakes, limits.OpenFiles().Kept/4))
	silent := max(1, min(maxSilent, limits.OpenFiles().Kept/4))
	l := &listener{
		greeter:  greeter{options: o, steps: t.steps, warnings: ipc.NewWarnings(o.Logger)},
		path:     path,
		greeting: make(chan struct{}, handshakes),
		silent:   ipc.NewStrangers(silent, leastSilent, expire),
		few:      max(1, silent/4),
		dialing:  map[*net.UnixConn]struct{}{},
	}
	switch w := o.Waiter.(type) {
	case nil:
		// conns come from a goroutine of this process
		l.Arrivals = ipc.NewArrivals[*conn](ipc.NewWaiter(), o.Backlog, handshakes)
	case *Waiter:
		l.Arrivals = ipc.NewArrivals[*conn](w, o.Backlog, handshakes)
	default:
		_, err := newWaiters(o.Waiter, nil)
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if err := checkDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if l.lock, err = takeLock(path); err != nil {
		return nil, err
	}
	if err := l.bind(); err != nil {
		l.lock.release()
		return nil, err
	}
	go l.accept()
	return l, nil
}

// AnyPrefix begins the names of the sockets that ListenAny makes. Sweep may remove them.
const AnyPrefix = "rank-"

// SharesMemory returns true.
func (Transport) SharesMemory() bool { return true }

// ListenAny opens a listener on a socket with a new name in at.Dir, which it makes if
// need be. It removes the sockets of such listeners that were killed.
func (t Transport) ListenAny(at ipc.Place, o *ipc.Options) (ipc.Listener, []string, error) {
	if err := PrepareDir(at.Dir); err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	if o != nil && o.Logger != nil {
		log = o.Logger
	}
	_, _ = Sweep(at.Dir, log, AnyPrefix)
	l, err := t.Listen(filepath.Join(at.Dir, fmt.Sprintf("%s%d-%.12s", AnyPrefix, os.Getpid(), rand.Text())), o)
	if err != nil {
		return nil, nil, err
	}
	addr, err := Advertise(l.Addr())
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, []string{addr}, nil
}

// bind makes the socket. The lock is held, so a socket that is there already is a dead
// process's.
func (l *listener) bind() error {
	if info, err := os.Lstat(l.path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return fmt.Errorf("%w: %s is a file of type %s, expected a socket or nothing", ipc.ErrAddrInUse, l.path, info.Mode().Type())
		}
		if err := os.Remove(l.path); err != nil {
			return fmt.Errorf("local: %w", err)
		}
	}
	sock, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: l.path, Net: "unixpacket"})
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	sock.SetUnlinkOnClose(true)
	mode := os.FileMode(0o600)
	if l.options.AllowGID != 0 {
		mode = 0o660
		err = os.Chown(l.path, -1, l.options.AllowGID)
	}
	if err == nil {
		err = os.Chmod(l.path, mode)
	}
	if err != nil {
		sock.Close()
		return fmt.Errorf("local: %w", err)
	}
	l.sock = sock
	return nil
}

func (l *listener) Addr() string { return l.path }

// Refused returns the number of peers that were refused: other users, other versions,
// those without a proper Hello, and those for which there are no descriptors.
func (l *listener) Refused() uint64 { return l.refused.Load() }

// Close also ends the handshakes under way.
func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for sock := range l.dialing {
		expire(sock)
	}
	l.mu.Unlock()
	// The socket goes first, then the lock: the next owner of the lock finds no socket.
	err := errors.Join(l.sock.Close(), l.lock.release())
	l.Arrivals.Close()
	l.warnings.Close()
	return err
}

// expire has all that is done with a socket fail.
func expire(sock *net.UnixConn) { _ = sock.SetDeadline(time.Unix(1, 0)) }

// accept takes connections until the listener is closed.
func (l *listener) accept() {
	for {
		l.steps.took("greet: accepts")
		sock, err := l.sock.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely. The peer waits in the kernel's queue; try
			// again when some handshake may have given one back.
			l.warnings.Warn("accept", "accept failed", "addr", l.path, "err", err)
			relieve()
			if !l.pause(time.Second / 10) {
				return
			}
			continue
		}
		if !l.register(sock) {
			ipc.CloseSocket(sock)
			return
		}
		if ipc.Said(sock) {
			l.greeting <- struct{}{}
			go l.greet(sock)
			continue
		}
		for !l.silent.MakeRoom() {
			<-time.After(roomEvery)
		}
		l.silent.Add(sock, processOf(sock))
		go l.awaitHello(sock)
	}
}

// processOf returns the process at the other end, the origin of a silent peer.
func processOf(sock *net.UnixConn) int32 {
	cred, err := credentials(sock)
	if err != nil {
		return 0
	}
	return cred.Pid
}

// awaitHello waits for the Hello of a silent peer, and then greets it.
func (l *listener) awaitHello(sock *net.UnixConn) {
	timeout := l.options.HandshakeTimeout
	first := min(firstByte, timeout)
	l.allow(sock, first)
	err := ipc.AwaitFirst(sock)
	if err != nil && l.silent.Len() <= l.few {
		l.allow(sock, timeout-first)
		err = ipc.AwaitFirst(sock)
	}
	l.greeting <- struct{}{}
	if err == nil {
		l.allow(sock, timeout)
	}
	l.silent.Remove(sock)
	l.greet(sock)
}

// allow gives a silent peer more time, unless it has lost its slot or the listener is
// closed.
func (l *listener) allow(sock *net.UnixConn, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.silent.Goes(sock, func() { _ = sock.SetDeadline(time.Now().Add(d)) })
	}
}

// pause waits and says whether the listener is still open.
func (l *listener) pause(d time.Duration) bool {
	<-time.After(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed
}

// greet does one handshake, whose slot it gives back, and queues the conn.
func (l *listener) greet(sock *net.UnixConn) {
	p, err := l.hear(sock)
	<-l.greeting
	var c *conn
	if err == nil {
		c, err = l.letIn(sock, p)
	}
	l.mu.Lock()
	delete(l.dialing, sock)
	l.mu.Unlock()
	switch {
	case err != nil:
		caller := ipc.Peer{UID: -1, GID: -1}
		if cred, err := credentials(sock); err == nil {
			caller.PID, caller.UID, caller.GID = int(cred.Pid), int(cred.Uid), int(cred.Gid)
		}
		ipc.CloseSocket(sock)
		if refused := l.options.Refused; refused != nil {
			refused(caller, err)
		} else {
			l.warnings.Warn(failure(err), "handshake failed", "addr", l.path, "err", err)
		}
	case !l.Add(c):
		c.Close()
	}
}

// letIn welcomes a peer when it is its turn.
func (l *listener) letIn(sock *net.UnixConn, p *caller) (*conn, error) {
	ctx, timeout := context.Background(), l.options.HandshakeTimeout
	if err := l.Enter(ctx, func(before int) error {
		return inTime(ctx, sock, timeout, func() error {
			allow(sock, timeout)
			_, err := sock.Write(ipc.Busy(before))
			return err
		})
	}); err != nil {
		p.bells.seg.Close()
		return nil, fmt.Errorf("%s %q (pid %d): waiting for its turn: %w", p.peer.Role, p.peer.Name, p.peer.PID, err)
	}
	allow(sock, timeout)
	c, err := l.welcome(sock, p)
	if err != nil {
		l.Leave()
	}
	return c, err
}

// failure returns the kind of a failed handshake, for which the log has a limit of its
// own. So the many failures of a peer that sends nonsense do not suppress the warning of
// one that the user can mend.
func failure(err error) string {
	switch {
	case errors.Is(err, ipc.ErrVersion):
		return "version"
	case errors.Is(err, ipc.ErrRefused):
		return "user"
	}
	return "stranger"
}

// register notes a handshake. It returns false once the listener is closed.
func (l *listener) register(sock *net.UnixConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.dialing[sock] = struct{}{}
	_ = sock.SetDeadline(time.Now().Add(l.options.HandshakeTimeout))
	return true
}
