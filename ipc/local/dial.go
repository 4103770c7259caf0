package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

const (
	// unheardTries is how often Dial connects at least to a listener that hangs up on it.
	unheardTries = 20

	// A listener that has said nothing for Options.HandshakeTimeout is looked at so many
	// times, so far apart, to see whether it has something to do.
	looks     = 20
	lookEvery = 5 * time.Millisecond

	// lateLeft is when a dialer counts as late to say Hello: long before a listener that
	// many others are silent to hangs up.
	lateLeft = leastSilent / 2
)

// layout is the version of what lies in shared memory.
const layout = ring.Layout

// Dial connects to the listener at addr. While the listener's process is kept from
// answering, because it computes or waits for a processor, Dial waits up to its context;
// one that does nothing has Options.HandshakeTimeout for each answer.
func (t Transport) Dial(ctx context.Context, addr string, options *ipc.Options) (ipc.Conn, error) {
	o, err := options.WithDefaults()
	if err != nil {
		return nil, err
	}
	path, _ := splitAddr(addr)
	if err := checkPath(path); err != nil {
		return nil, fmt.Errorf("%w: %w", ipc.ErrNoListener, err)
	}
	end := time.Now().Add(o.HandshakeTimeout)
	for tries := 1; ; {
		c, err := t.dialOnce(ctx, path, &o)
		// This end may have had no processor for so long that it was hung up on as one
		// that says nothing. Then the try is none.
		if !errors.Is(err, errUnheard) || ctx.Err() != nil || tries >= unheardTries && time.Now().After(end) {
			return c, err
		}
		if !errors.Is(err, errLate) {
			tries++
		}
	}
}

// errUnheard is returned when a listener hung up on a dialer without any answer.
var errUnheard = fmt.Errorf("%w before the handshake", ipc.ErrPeerGone)

// errLate is errUnheard where the dialer itself was late to speak.
var errLate = fmt.Errorf("%w, and this process spoke late", errUnheard)

// dialOnce is Dial of one connection.
func (t Transport) dialOnce(ctx context.Context, path string, o *ipc.Options) (ipc.Conn, error) {
	nc, began, err := connect(ctx, path)
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without the path, which the errors below have
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w at %s: %w", ipc.ErrNoListener, path, err)
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("%w by %s: it belongs to another user, and not to a group of ours that was let in: %w", ipc.ErrRefused, path, err)
	case err != nil:
		return nil, fmt.Errorf("local: dial %s: %w", path, ipc.DialError(ctx, err, nil))
	}
	sock := nc.(*net.UnixConn)
	c, err := dialHandshake(ctx, sock, began, o, t.steps)
	if err != nil {
		ipc.CloseSocket(sock)
		return nil, fmt.Errorf("local: dial %s: %w", path, err)
	}
	return c, nil
}

// connect connects to a socket, and says when it began to. It waits while the kernel's
// queue of the listener is full.
func connect(ctx context.Context, path string) (c net.Conn, began time.Time, err error) {
	var d net.Dialer
	for {
		began = time.Now()
		c, err = d.DialContext(ctx, "unixpacket", path)
		if !errors.Is(err, unix.EAGAIN) || ctx.Err() != nil {
			return c, began, err
		}
		<-time.After(shortPause)
	}
}

// dialHandshake is the dialer's half, on a socket that was connected since began. The
// socket stays the caller's on error.
func dialHandshake(ctx context.Context, sock *net.UnixConn, began time.Time, o *ipc.Options, st *steps) (*conn, error) {
	var busy *ipc.BusyError
	c, err := greetListener(ctx, sock, began, o, st, &busy)
	if err == nil {
		return c, nil
	}
	err = ipc.DialError(ctx, err, busy)
	if cred, errCred := credentials(sock); errCred == nil && (ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		if still := Standstill(ipc.Peer{PID: int(cred.Pid)}); still != "" {
			err = fmt.Errorf("%w: %s", err, still)
		}
	}
	return nil, err
}

// greetListener is dialHandshake that says by busy whether the listener was busy when it
// was last heard.
func greetListener(ctx context.Context, sock *net.UnixConn, began time.Time, o *ipc.Options, st *steps, busy **ipc.BusyError) (*conn, error) {
	// Every read and write of the handshake ends with the earlier of the two.
	allow(sock, o.HandshakeTimeout)
	cancel := context.AfterFunc(ctx, func() { expire(sock) })
	defer cancel()

	cred, err := credentials(sock)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if err := allowed(cred, o.AllowGID, true); err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	w, err := newWaiters(o.Waiter, st)
	if err != nil {
		return nil, err
	}
	m := hello(o, w, 0)
	st.took("dial: connected")
	err = inTime(ctx, sock, o.HandshakeTimeout, func() error {
		return sendFiles(st, sock, encoding.AppendHello(nil, &m), w.page.seg.File())
	})
	unheard := errUnheard
	if time.Since(began) >= lateLeft {
		unheard = errLate
	}
	if err != nil {
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			return nil, unheard
		}
		return nil, fmt.Errorf("sending Hello: %w", err)
	}
	w.handedOver()
	st.took("dial: hello sent")

	data, files, err := hearListener(ctx, sock, int(cred.Pid), o.HandshakeTimeout, st)
	for err == nil && len(files) == 0 {
		b := ipc.ParseBusy(data)
		if b == nil {
			break
		}
		*busy = b
		allow(sock, o.HandshakeTimeout)
		if ctx.Err() != nil { // cancel may have set its deadline before
			return nil, ipc.ContextError(ctx)
		}
		data, files, err = hearListener(ctx, sock, int(cred.Pid), o.HandshakeTimeout, st)
	}
	if errors.Is(err, unix.ECONNRESET) && *busy == nil { // it has not read Hello
		return nil, unheard
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil, fmt.Errorf("%w during the handshake", ipc.ErrPeerGone)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for Welcome: %w", err)
	}
	*busy = nil
	st.took("dial: welcome read")
	welcome, err := parseWelcome(data)
	if err == nil && len(files) != 2 {
		err = fmt.Errorf("%w: Welcome with %d descriptors, expected 2", ipc.ErrCorrupt, len(files))
	}
	if err != nil {
		ipc.CloseFiles(files)
		return nil, err
	}
	_ = sock.SetDeadline(time.Time{})
	if !cancel() {
		ipc.CloseFiles(files)
		return nil, ipc.ContextError(ctx) // its deadline may have come after ours
	}
	return dialed(sock, welcome, files, w, o, st)
}

// allow gives what is done with a socket so much time from now on.
func allow(sock *net.UnixConn, d time.Duration) { _ = sock.SetDeadline(time.Now().Add(d)) }

// inTime has f, which does not wait for long, use a socket. It is not late because this
// process had no processor between setting the deadline and looking at it.
func inTime(ctx context.Context, sock *net.UnixConn, timeout time.Duration, f func() error) error {
	err := f()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		allow(sock, timeout)
		if ctx.Err() != nil { // whose end may have set its deadline before
			return ipc.ContextError(ctx)
		}
		err = f()
	}
	return err
}

// hearListener waits for what the listener says, up to the socket's deadline. It takes
// also what came in time and was not read, for this process waited for a processor, and
// waits on while the listener's process waits for one or computes. If this process has no
// descriptor for what the listener sent, waiting on is of no use.
func hearListener(ctx context.Context, sock *net.UnixConn, pid int, timeout time.Duration, st *steps) (data []byte, files []*os.File, err error) {
	for {
		data, files, err = recvGreeting(sock)
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errShort) || ctx.Err() != nil {
			return data, files, err
		}
		if !goesOn(ctx, sock, pid) {
			return nil, nil, err
		}
		st.took("dial: waits on")
		allow(sock, timeout)
		if ctx.Err() != nil { // whose end may have set its deadline before
			return nil, nil, ipc.ContextError(ctx)
		}
	}
}

// goesOn looks at a listener for a while: whether it has said something, or its process
// has something to do.
func goesOn(ctx context.Context, sock *net.UnixConn, pid int) bool {
	for range looks {
		if ipc.Said(sock) || runs(pid) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(lookEvery):
		}
	}
	return false
}

// parseWelcome reads the listener's answer.
func parseWelcome(src []byte) (*encoding.Hello, error) {
	m, err := ipc.ParseWelcome(src)
	if err != nil {
		return nil, err
	}
	if m.Layout != layout {
		return nil, fmt.Errorf("%w: ring layout %d, this is %d", ipc.ErrVersion, m.Layout, layout)
	}
	return m, nil
}

// dialed maps what the listener sent. It owns files.
func dialed(sock *net.UnixConn, m *encoding.Hello, files []*os.File, w waiters, o *ipc.Options, st *steps) (*conn, error) {
	defer ipc.CloseFiles(files) // the mappings need no descriptors
	peer, err := peerOf(m, sock)
	if err != nil {
		return nil, err
	}
	bells, err := openPeerBells(files[1], m.DataBell, m.RoomBell, st)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err)
	}
	size := ring.Size(int(m.RingBytes))
	seg, err := shm.FromFile(0, files[0], int64(2*size), &shm.Options{Sealed: true, Sparse: true})
	if err != nil {
		bells.seg.Close()
		return nil, fmt.Errorf("conn's segment: %w", err)
	}
	mem := seg.Bytes()
	st.took("dial: mapped")
	c, err := newConn(peer, sock, seg, mem[:size:size], mem[size:2*size:2*size], bells, w, ipc.NewWarnings(o.Logger), st)
	if err != nil {
		seg.Close()
		bells.seg.Close()
	}
	return c, err
}
