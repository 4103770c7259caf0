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

// maxHandshakes bounds how many peers at a time are let in or have not said their Hello;
// further ones wait in the kernel's queue. With few descriptors there are fewer, so that
// a quarter of those that are kept is enough for the socket of each and what comes with
// it.
const maxHandshakes = 64

type listener struct {
	*ipc.Arrivals[*conn]
	greeter
	path string
	sock *net.UnixListener
	lock *lock

	greeting chan struct{} // one slot for every peer whose Hello has not come

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
	l := &listener{
		greeter:  greeter{options: o, steps: t.steps, warnings: ipc.NewWarnings(o.Logger)},
		path:     path,
		greeting: make(chan struct{}, handshakes),
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
		_ = sock.SetDeadline(time.Unix(1, 0))
	}
	l.mu.Unlock()
	// The socket goes first, then the lock: the next owner of the lock finds no socket.
	err := errors.Join(l.sock.Close(), l.lock.release())
	l.Arrivals.Close()
	l.warnings.Close()
	return err
}

// accept takes connections until the listener is closed.
func (l *listener) accept() {
	for {
		l.greeting <- struct{}{}
		sock, err := l.sock.AcceptUnix()
		if err != nil {
			<-l.greeting
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
		go l.greet(sock)
	}
}

// pause waits and says whether the listener is still open.
func (l *listener) pause(d time.Duration) bool {
	<-time.After(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed
}

// greet does one handshake and queues the conn.
func (l *listener) greet(sock *net.UnixConn) {
	if !l.register(sock) {
		<-l.greeting
		ipc.CloseSocket(sock)
		return
	}
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
	if err := l.Enter(context.Background(), func(before int) error {
		_ = sock.SetDeadline(time.Now().Add(l.options.HandshakeTimeout))
		_, err := sock.Write(ipc.Busy(before))
		return err
	}); err != nil {
		p.bells.seg.Close()
		return nil, fmt.Errorf("%s %q (pid %d): waiting for its turn: %w", p.peer.Role, p.peer.Name, p.peer.PID, err)
	}
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
