package local

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// greeter is the half of the handshake that makes the conn's memory: a listener's, and an
// offer's.
type greeter struct {
	options  ipc.Options
	steps    *steps
	warnings *ipc.Warnings // of peers that are not let in or break the protocol
	full     func() bool   // there is no room for another conn
	// the sockets are pairs made here, for which the kernel names this process as the
	// peer
	offers  bool
	refused atomic.Uint64 // peers
}

// handshake greets the peer. The socket stays the caller's on error; the peer has then
// been told the reason, if it can be told anything.
func (g *greeter) handshake(sock *net.UnixConn) (*conn, error) {
	cred, err := credentials(sock)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	buf := make([]byte, encoding.MaxHandshake)
	n, files, err := recvFiles(sock, buf, make([]byte, oobSize()))
	if err != nil {
		return nil, fmt.Errorf("pid %d: waiting for Hello: %w", cred.Pid, err)
	}
	defer ipc.CloseFiles(files) // the mapping needs no descriptor
	g.steps.took("greet: hello read")
	// Not before Hello has been read: if this end closed with unread data, the peer would
	// see a reset instead of the refusal.
	if err := allowed(cred, g.options.AllowGID, false); err != nil {
		return nil, g.refuse(sock, encoding.RefuseUser, err)
	}
	var m encoding.Hello
	if err := encoding.ParseHello(buf[:n], &m); err != nil {
		if errors.Is(err, encoding.ErrVersion) {
			return nil, g.refuse(sock, encoding.RefuseVersion, ipc.GreetingError(err))
		}
		return nil, g.refuse(sock, encoding.RefuseBroken, err)
	}
	if m.Layout != layout {
		return nil, g.refuse(sock, encoding.RefuseVersion,
			fmt.Errorf("%w: ring layout %d, this is %d", ipc.ErrVersion, m.Layout, layout))
	}
	if len(files) != 1 {
		return nil, g.refuse(sock, encoding.RefuseBroken, fmt.Errorf("a Hello with %d descriptors, expected 1", len(files)))
	}
	if g.full() {
		return nil, g.refuse(sock, encoding.RefuseBusy, fmt.Errorf("%d conns wait to be accepted", g.options.Backlog))
	}
	return g.welcome(sock, &m, files[0])
}

// welcome makes the conn's memory and sends it.
func (g *greeter) welcome(sock *net.UnixConn, m *encoding.Hello, page *os.File) (*conn, error) {
	peer, err := peerOf(m, sock)
	if err != nil {
		return nil, err
	}
	if g.offers {
		peer.PID, peer.UID, peer.GID = int(m.PID), -1, -1
	}
	bells, err := openPeerBells(page, m.DataBell, m.RoomBell, g.steps)
	if err != nil {
		return nil, g.refuse(sock, encoding.RefuseBroken, err)
	}
	w, err := newWaiters(g.options.Waiter, g.steps)
	if err != nil {
		bells.seg.Close()
		return nil, g.refuse(sock, encoding.RefuseBusy, err)
	}
	size := ring.Size(g.options.RingBytes)
	seg, err := shm.Create(int64(2*size), &shm.Options{Backing: shm.Memfd, Prefault: true})
	if err != nil {
		bells.seg.Close()
		return nil, g.refuse(sock, encoding.RefuseBusy, err)
	}
	g.steps.took("greet: segment made")
	c, err := g.open(sock, peer, seg, size, bells, w)
	if err != nil {
		seg.Close()
		bells.seg.Close()
	}
	return c, err
}

// open makes the rings, sends Welcome and starts the conn. The segments stay the caller's
// on error.
func (g *greeter) open(sock *net.UnixConn, peer ipc.Peer, seg *shm.Segment, size int, bells bells, w waiters) (*conn, error) {
	mem := seg.Bytes()
	in, out := mem[:size:size], mem[size:2*size:2*size]
	if err := errors.Join(ring.Init(in), ring.Init(out)); err != nil {
		return nil, err
	}
	welcome := encoding.Welcome(hello(&g.options, w, g.options.RingBytes))
	if err := sendFiles(sock, encoding.AppendWelcome(nil, &welcome), seg.File(), w.page.seg.File()); err != nil {
		return nil, fmt.Errorf("%s %q (pid %d): sending Welcome: %w", peer.Role, peer.Name, peer.PID, err)
	}
	g.steps.took("greet: welcome sent")
	seg.File().Close() // the mapping needs no descriptor
	w.handedOver()
	_ = sock.SetDeadline(time.Time{})
	return newConn(peer, sock, seg, out, in, bells, w, g.warnings, g.steps)
}

// refuse tells the peer why, as far as it listens, and returns the error for the log.
func (g *greeter) refuse(sock *net.UnixConn, reason uint32, err error) error {
	g.refused.Add(1)
	// the peer puts it in front again
	text := strings.TrimPrefix(err.Error(), ipc.ErrRefused.Error()+": ")
	m := encoding.Refuse{Version: encoding.Version, Reason: reason, Text: encoding.CutText(text)}
	if _, e := sock.Write(encoding.AppendRefuse(nil, &m)); e != nil {
		return fmt.Errorf("%w (and the peer was not told: %w)", err, e)
	}
	return err
}
