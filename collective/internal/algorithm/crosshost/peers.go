package crosshost

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// job is one rank's part in a collective: which pieces it sends to each rank and gets
// from it, in which order, when a piece may begin, and what is computed in between. The
// goroutine of the call calls all methods, again and again, and they do not wait.
type job interface {
	// sends and recvs return the numbers of pieces to and from p. There is an empty piece
	// where there is nothing to send but the peer has to know that this rank came.
	sends(p int) int
	recvs(p int) int

	// send returns the i-th piece to p, false while it must not begin. recv returns the
	// place of the i-th piece from p likewise.
	send(p, i int) ([]byte, bool)
	recv(p, i int) ([]byte, bool)

	// work computes what can be computed now and reports whether there was anything.
	work() bool
}

// peer is what a comm knows of one of the others, and how far the call under way is with
// it. Only the call's goroutine touches it.
type peer struct {
	conn ipc.Conn
	bulk ipc.Bulk // of conn

	sends, recvs       int // pieces of this call
	sent, rcvd         int // finished
	sending, receiving bool
	got                int       // bytes of the piece that is being received
	size               [2]uint64 // of the pieces under way, sent and received
	// times that something arrived; that when the peer was last told
	arrived, confirmed uint64
	out, in            [1][]byte

	outIndex, inIndex uint64 // transfers begun since New
	asked             uint64 // outIndex of the last Send that did not get through at once
	early             []*early
	waits             uint64 // the hash of the last call that it said it waits in
	left              bool   // it said that it leaves
	gone              error  // why no more messages can come
	broken            error  // why bulk has ended
	brokenAt          uint32 // the tick of that
}

// early is a transfer that was taken in before its Recv.
type early struct {
	call protocol.Call
	buf  []byte
	done bool
}

// pending reports whether a piece of the call is missing.
func (l *peer) pending() bool { return l.sent < l.sends || l.rcvd < l.recvs }

// engine runs the call under way: it moves the pieces of a job, and finds out how the
// call fails.
type engine struct {
	rank, n int
	peers   []peer // by rank; the zero peer at rank
	waiter  ipc.Waiter
	log     *slog.Logger
	clock   clock

	call   protocol.Call // the zero Call between calls
	hash   uint64        // of call
	job    job
	failed *protocol.PeerError // by the call under way
	tick   uint32              // the last one seen
	late   uint32              // the tick at which the call is late
	moves  uint64              // transfers and chunks so far
	idle   uint64              // moves at the last tick
	past   [8]protocol.Call    // the last calls, by Seq modulo 8
	held   []heldNotice        // until the next call
	step   func() bool         // advance, for Waiter.Wait

	earlyBytes int // held by peers' early transfers

	dead   atomic.Pointer[protocol.PeerError]
	notify sync.Mutex // held to send messages

	stats struct{ sentBytes, recvBytes atomic.Uint64 }
}

// noticeKind is the kind of the messages: "WI".
const noticeKind = 0x57_49

// heldNotice is a notice of a mismatch that came while no call was under way.
type heldNotice struct {
	from   int
	notice protocol.Notice
}

// kill makes e the comm's end, if it is the first, and tells the others. It returns the
// end.
func (c *engine) kill(e *protocol.PeerError) *protocol.PeerError {
	if !c.dead.CompareAndSwap(nil, e) {
		return c.dead.Load()
	}
	c.log.Debug("collective: failed", "err", e)
	c.tell(protocol.NoticeOf(e, c.rank))
	c.waiter.Wake()
	return e
}

// tell sends n to every rank that has room for it. Any goroutine may call it.
func (c *engine) tell(n protocol.Notice) {
	for p := range c.peers {
		if p != c.rank {
			c.send(p, n)
		}
	}
}

// send sends n to rank p if it has room for it.
func (c *engine) send(p int, n protocol.Notice) {
	c.notify.Lock()
	defer c.notify.Unlock()
	conn := c.peers[p].conn
	if conn == nil {
		return
	}
	body := n.Append(nil, c.n)
	buf, err := conn.TryReserve(noticeKind, len(body))
	if err != nil {
		return // it is gone, or its queue is full of notices already
	}
	copy(buf, body)
	_ = conn.Commit() // which fails if the peer is gone
}

// lost returns the error of a call because rank p is gone.
func (c *engine) lost(p int, err error) *protocol.PeerError {
	return &protocol.PeerError{Rank: p, Call: c.call, Err: fmt.Errorf("%w: %w", protocol.ErrPeerLost, err)}
}

// differ returns the error of rank p's call, which is not this rank's.
func (c *engine) differ(p int, ours, theirs protocol.Call) *protocol.PeerError {
	call := c.call
	if call.Kind == protocol.NoKind {
		call = ours
	}
	return &protocol.PeerError{Rank: p, Call: call, Err: &protocol.MismatchError{Ours: ours, Theirs: theirs}}
}
