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

// unheardTries is how often Dial connects at least to a listener that hangs up on it.
const unheardTries = 20

// layout is the version of what lies in shared memory.
const layout = ring.Layout

// Dial connects to the listener at addr.
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
	for tries := 1; ; tries++ {
		c, err := t.dialOnce(ctx, path, &o)
		// This end may have had no processor for so long that it was hung up on as one
		// that says nothing, and have none for longer than the timeout.
		if !errors.Is(err, errUnheard) || ctx.Err() != nil || tries >= unheardTries && time.Now().After(end) {
			return c, err
		}
	}
}

// errUnheard is returned when a listener hung up on a dialer without any answer.
var errUnheard = fmt.Errorf("%w before the handshake", ipc.ErrPeerGone)

// dialOnce is Dial of one connection.
func (t Transport) dialOnce(ctx context.Context, path string, o *ipc.Options) (ipc.Conn, error) {
	nc, err := connect(ctx, path)
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
	c, err := dialHandshake(ctx, sock, o, t.steps)
	if err != nil {
		ipc.CloseSocket(sock)
		return nil, fmt.Errorf("local: dial %s: %w", path, err)
	}
	return c, nil
}

// connect connects to a socket. It waits while the kernel's queue of the listener is
// full.
func connect(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unixpacket", path)
		if !errors.Is(err, unix.EAGAIN) || ctx.Err() != nil {
			return c, err
		}
		<-time.After(shortPause)
	}
}

// dialHandshake is the dialer's half. The socket stays the caller's on error.
func dialHandshake(ctx context.Context, sock *net.UnixConn, o *ipc.Options, st *steps) (*conn, error) {
	var busy *ipc.BusyError
	c, err := greetListener(ctx, sock, o, st, &busy)
	if err != nil {
		err = ipc.DialError(ctx, err, busy)
	}
	return c, err
}

// greetListener is dialHandshake that says by busy whether the listener was busy when it
// was last heard.
func greetListener(ctx context.Context, sock *net.UnixConn, o *ipc.Options, st *steps, busy **ipc.BusyError) (*conn, error) {
	// Every read and write of the handshake ends with the earlier of the two.
	_ = sock.SetDeadline(time.Now().Add(o.HandshakeTimeout))
	cancel := context.AfterFunc(ctx, func() { _ = sock.SetDeadline(time.Unix(1, 0)) })
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
	if err := sendFiles(st, sock, encoding.AppendHello(nil, &m), w.page.seg.File()); err != nil {
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			return nil, errUnheard
		}
		return nil, fmt.Errorf("sending Hello: %w", err)
	}
	w.handedOver()
	st.took("dial: hello sent")

	data, files, err := hearListener(ctx, sock, o.HandshakeTimeout)
	for err == nil && len(files) == 0 {
		b := ipc.ParseBusy(data)
		if b == nil {
			break
		}
		*busy = b
		_ = sock.SetDeadline(time.Now().Add(o.HandshakeTimeout))
		if ctx.Err() != nil { // cancel may have set its deadline before
			return nil, ipc.ContextError(ctx)
		}
		data, files, err = hearListener(ctx, sock, o.HandshakeTimeout)
	}
	if errors.Is(err, unix.ECONNRESET) && *busy == nil { // it has not read Hello
		return nil, errUnheard
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

// hearListener waits for what the listener says, up to the socket's deadline. It takes
// also what came in time and was not read, for this process waited for a processor.
func hearListener(ctx context.Context, sock *net.UnixConn, timeout time.Duration) (data []byte, files []*os.File, err error) {
	data, files, err = recvGreeting(sock)
	if errors.Is(err, os.ErrDeadlineExceeded) && ipc.Said(sock) {
		_ = sock.SetDeadline(time.Now().Add(timeout))
		if ctx.Err() != nil { // whose end may have set its deadline before
			return nil, nil, ipc.ContextError(ctx)
		}
		data, files, err = recvGreeting(sock)
	}
	return data, files, err
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
