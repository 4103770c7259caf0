package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/limits"
)

// greeter is the half of the handshake that makes the conn's memory: a listener's, and an
// offer's.
type greeter struct {
	options  ipc.Options
	steps    *steps
	warnings *ipc.Warnings // of peers that are not let in or break the protocol
	// the sockets are pairs made here, for which the kernel names this process as the
	// peer
	offers  bool
	refused atomic.Uint64 // peers
}

// caller is a peer that has said a proper Hello.
type caller struct {
	peer  ipc.Peer
	bells bells
}

// alone calls f, which must not wait, while no other conn of the Waiter is made.
func (g *greeter) alone(f func()) {
	if w, ok := g.options.Waiter.(*Waiter); ok {
		w.making.Lock()
		defer w.making.Unlock()
	}
	f()
}

// hear reads the peer's Hello. The socket stays the caller's on error; the peer has then
// been told the reason, if it can be told anything.
func (g *greeter) hear(sock *net.UnixConn) (*caller, error) {
	cred, err := credentials(sock)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	data, files, err := recvGreeting(sock)
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
	if err := encoding.ParseHello(data, &m); err != nil {
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
	if !g.offers && ipc.Role(m.Role).Ordinary() {
		if err := crowded(sock); err != nil {
			return nil, g.refuse(sock, encoding.RefuseBusy, err)
		}
	}
	p := &caller{}
	if p.peer, err = peerOf(&m, sock); err != nil {
		return nil, err
	}
	if g.offers {
		p.peer.PID, p.peer.UID, p.peer.GID = int(m.PID), -1, -1
	}
	g.alone(func() { p.bells, err = openPeerBells(files[0], m.DataBell, m.RoomBell, g.steps) })
	if err != nil {
		return nil, g.refuse(sock, encoding.RefuseBroken, err)
	}
	return p, nil
}

// welcome makes the conn's memory and sends it.
func (g *greeter) welcome(sock *net.UnixConn, p *caller) (c *conn, err error) {
	defer func() {
		if err != nil {
			p.bells.seg.Close()
		}
	}()
	w, seg, err := g.memory()
	if err != nil {
		return nil, g.refuse(sock, encoding.RefuseBusy, err)
	}
	g.steps.took("greet: segment made")
	if c, err = g.open(sock, p.peer, seg, ring.Size(g.options.RingBytes), p.bells, w); err != nil {
		seg.Close()
	}
	return c, err
}

// memory makes what a conn sleeps on, and its segment. It waits for descriptors as long
// as a peer waits for an answer.
func (g *greeter) memory() (w waiters, seg *shm.Segment, err error) {
	for end := time.Now().Add(g.options.HandshakeTimeout / 2); ; <-time.After(shortPause) {
		g.alone(func() {
			if w.page == nil {
				w, err = newWaiters(g.options.Waiter, g.steps)
			}
			if w.page != nil {
				seg, err = shm.Create(int64(2*ring.Size(g.options.RingBytes)), &shm.Options{Backing: shm.Memfd, Sparse: true})
			}
		})
		switch {
		case !errors.Is(err, unix.EMFILE):
			return w, seg, err
		case time.Now().After(end):
			return w, seg, fmt.Errorf("%w: this process may have %v", err, limits.OpenFiles())
		}
		relieve()
	}
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
	if err := inTime(context.Background(), sock, g.options.HandshakeTimeout, func() error {
		return sendFiles(g.steps, sock, encoding.AppendWelcome(nil, &welcome), seg.File(), w.page.seg.File())
	}); err != nil {
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
