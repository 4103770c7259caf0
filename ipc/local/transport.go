package local

import (
	"fmt"
	"net"
	"path/filepath"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
)

// Transport is the ipc.Transport between processes of one host. Addresses are absolute
// paths of sockets, as such or from Advertise. The zero value is ready.
type Transport struct{ steps *steps }

var _ ipc.Transport = Transport{}

// New returns the transport.
func New() Transport { return Transport{} }

// Name is "local".
func (Transport) Name() string { return "local" }

// Reaches says yes to absolute paths, unless they were advertised on another host. Of one
// that is too long for a socket, Dial and Listen say so.
func (Transport) Reaches(addr string) bool {
	path, id := splitAddr(addr)
	if !filepath.IsAbs(path) || id == "" {
		return filepath.IsAbs(path)
	}
	here, err := hostID(filepath.Dir(path))
	return err == nil && here == id
}

// waiters are what a conn sleeps on.
type waiters struct {
	page       *bellPage
	data, room *Waiter
	own        bool
}

// newWaiters are those that were given in the options, or new ones.
func newWaiters(given ipc.Waiter, st *steps) (w waiters, err error) {
	switch g := given.(type) {
	case nil:
		if w.page, err = newBellPage(st); err != nil {
			return w, err
		}
		w.data, w.room, w.own = w.page.waiter(w.page.data), w.page.waiter(w.page.room), true
	case *Waiter:
		w.page, w.data, w.room = g.page, g, g
	default:
		return w, fmt.Errorf("%w: Waiter is a %T; the local transport needs one of local.NewWaiter", ipc.ErrBadOption, given)
	}
	return w, nil
}

// offsets are where in the page the peer finds the bells.
func (w waiters) offsets() (data, room uint32) {
	if w.own {
		return dataBell, roomBell
	}
	return dataBell, dataBell
}

// handedOver closes the descriptor of a page that no other peer will be given.
func (w waiters) handedOver() {
	if w.own {
		w.page.seg.File().Close()
	}
}

// hello introduces this end.
func hello(o *ipc.Options, w waiters, ringBytes int) encoding.Hello {
	data, room := w.offsets()
	m := o.Introduce(ringBytes)
	m.Start, m.Layout, m.DataBell, m.RoomBell = ownStart(), layout, data, room
	return m
}

// peerOf returns the peer as it introduced itself, except for the fields that the kernel
// knows.
func peerOf(m *encoding.Hello, sock *net.UnixConn) (ipc.Peer, error) {
	cred, err := credentials(sock)
	if err != nil {
		return ipc.Peer{}, fmt.Errorf("local: credentials: %w", err)
	}
	p := ipc.PeerOf(m)
	p.UID, p.GID = int(cred.Uid), int(cred.Gid)
	if cred.Pid != 0 { // else it is of a namespace that cannot be seen from here
		p.PID = int(cred.Pid)
	}
	return p, nil
}
