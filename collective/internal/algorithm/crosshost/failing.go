package crosshost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// # How a call fails
//
// A rank that finds an error tells all others, once, with a notice: that a rank is lost,
// that ranks did not come, that calls do not match, that it gives up. A rank that reads a
// notice fails with the same cause. So all ranks know within the time of one message,
// also those that wait for a third rank, which is well. A rank that waits in silence
// tells the ranks that it waits for in which call, again and again. So ranks that wait
// for each other in different calls find out, where no data ever meets.

// askTime is how long a rank that has met a mismatch waits to hear the other rank's call,
// or the timeout of a call if that is less.
const askTime = time.Second

// errUnsettled means that there is a mismatch, but the other rank's call is not known.
var errUnsettled = errors.New("collective: another call")

// read takes in the notices of the others. The comm is locked.
func (c *engine) read() *protocol.PeerError {
	for p := range c.peers {
		l := &c.peers[p]
		if p == c.rank || l.gone != nil {
			continue
		}
		for {
			m, ok, err := l.conn.TryRecv()
			if err != nil {
				l.gone = err
				if !errors.Is(err, ipc.ErrPeerGone) {
					return c.lost(p, err)
				}
				break
			}
			if !ok {
				break
			}
			if e := c.take(p, l, m); e != nil {
				return e
			}
		}
	}
	return c.lostPeer()
}

// lostPeer returns an error if a rank that this call still needs is gone.
func (c *engine) lostPeer() *protocol.PeerError {
	if c.job == nil {
		return nil
	}
	for p := range c.peers {
		l := &c.peers[p]
		if p == c.rank || !l.pending() {
			continue
		}
		switch {
		case l.broken != nil && (l.gone != nil || c.tick > l.brokenAt+1):
			return c.lost(p, l.broken)
		case l.gone != nil && !l.left:
			// Data that it sent before it died may still be on the way. Only a rank that
			// said that it leaves has sent all that it promised.
			return c.lost(p, l.gone)
		}
	}
	return nil
}

// take takes in one message from rank p.
func (c *engine) take(p int, l *peer, m ipc.Message) *protocol.PeerError {
	ipc.CloseFiles(m.Files)
	var n protocol.Notice
	err := fmt.Errorf("message of kind %#x, expected %#x", m.Kind, noticeKind)
	if m.Kind == noticeKind {
		n, err = protocol.ParseNotice(m.Body, c.n)
	}
	l.conn.Release()
	if err != nil {
		return c.lost(p, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err))
	}
	switch n.Reason {
	case protocol.Left:
		l.left = true
	case protocol.Waiting:
		return c.waitedFor(p, l, n)
	case protocol.Arriving:
		if l.sending {
			c.moves++
		}
	case protocol.Mismatched:
		return c.compared(p, n)
	default:
		return n.AsError(p, c.rank, c.call)
	}
	return nil
}

// ours returns this rank's call at the place of a peer's call, the zero Call if it is not
// there yet or the call is forgotten.
func (c *engine) ours(theirs protocol.Call) protocol.Call {
	mine := c.past[theirs.Seq%uint64(len(c.past))]
	if mine.Seq == theirs.Seq && mine.Kind.Paired() == theirs.Kind.Paired() {
		return mine
	}
	return protocol.Call{}
}

// waitedFor takes in that rank p waits in n.Call. It may wait for a call that this rank
// never makes.
func (c *engine) waitedFor(p int, l *peer, n protocol.Notice) *protocol.PeerError {
	l.waits = n.Call.Hash()
	if n.Call.Kind == protocol.Send {
		return c.takeIn(p, l, n)
	}
	if n.Call.Kind.Paired() || n.Call.Kind == protocol.NoKind {
		return nil // sends and receives have counts of their own
	}
	if mine := c.ours(n.Call); mine.Kind != protocol.NoKind && mine.Hash() != n.Call.Hash() {
		return c.differ(p, mine, n.Call)
	}
	return nil
}

// compared takes in that rank p has met a rank that is in another call.
func (c *engine) compared(p int, n protocol.Notice) *protocol.PeerError {
	mine := c.ours(n.Call)
	if mine.Kind == protocol.NoKind {
		mine = c.call
	}
	// This rank has forgotten its call, and another rank's is the one that differs.
	if mine.Seq > n.Call.Seq && n.Rank != c.rank {
		mine = n.Call
	}
	switch {
	case mine.Kind == protocol.NoKind: // the next call compares
		if len(c.held) < c.n {
			c.held = append(c.held, heldNotice{p, n})
		}
		return nil
	case mine.Hash() != n.Call.Hash():
		return c.differ(p, mine, n.Call)
	case n.Theirs.Kind != protocol.NoKind && n.Rank >= 0:
		return c.differ(n.Rank, mine, n.Theirs)
	}
	return &protocol.PeerError{Rank: n.Rank, Call: c.call, Err: errUnsettled}
}

// heldBack compares the held notices with the call that now begins.
func (c *engine) heldBack() (e *protocol.PeerError) {
	for _, h := range c.held {
		if e = c.compared(h.from, h.notice); e.Err != errUnsettled {
			break
		}
	}
	return e
}

// settle makes e the comm's end. If e is a mismatch with a call that is not known, it
// waits for a notice that says more.
func (c *engine) settle(e *protocol.PeerError) *protocol.PeerError {
	var m *protocol.MismatchError
	known := errors.As(e, &m) && m.Theirs.Kind != protocol.NoKind
	if known || !errors.Is(e, protocol.ErrMismatch) && e.Err != errUnsettled {
		return c.kill(e)
	}
	if e.Err == errUnsettled {
		e.Err = &protocol.MismatchError{Ours: c.call}
	}
	c.tell(protocol.NoticeOf(e, c.rank))
	ctx, cancel := context.WithTimeout(context.Background(), min(askTime, c.clock.timeout))
	defer cancel()
	_ = c.waiter.Wait(ctx, func() bool {
		if c.dead.Load() != nil {
			return true
		}
		heard := c.read()
		if heard == nil || heard.Err == errUnsettled {
			return c.allGone()
		}
		if errors.As(heard, &m) {
			e = heard
		}
		return true
	})
	if c.dead.CompareAndSwap(nil, e) { // the others have been told
		c.log.Debug("collective: failed", "err", e)
	}
	return c.dead.Load()
}

// allGone reports whether no message can come from any rank.
func (c *engine) allGone() bool {
	for p := range c.peers {
		if p != c.rank && c.peers[p].gone == nil {
			return false
		}
	}
	return true
}

// cancelled returns the end of a call because of a context's error.
func (c *engine) cancelled(err error) *protocol.PeerError {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e, _ := c.timedOut()
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
		return e
	}
	return &protocol.PeerError{Rank: c.rank, Call: c.call, Err: err}
}

// overdue is called at every tick of the clock. It returns an error if nothing has moved
// for too long. If nothing has moved since the last tick, it tells the others in which
// call this rank waits. It tells ranks whose data is arriving, for they see only when all
// has gone.
func (c *engine) overdue() *protocol.PeerError {
	if e := c.lostPeer(); e != nil {
		return e
	}
	if c.idle != c.moves {
		c.late = c.tick + c.clock.limit
	}
	if over := int32(c.tick - c.late); over >= 0 {
		// The ranks that this one waits for may themselves wait for a rank that does not:
		// they know which, and will say so.
		if e, known := c.timedOut(); known || over > int32(c.clock.limit/4)+1 {
			return e
		}
	}
	for p := range c.peers {
		l := &c.peers[p]
		switch {
		case p == c.rank:
		case c.idle == c.moves:
			c.ask(p)
		case l.receiving && l.arrived != l.confirmed:
			l.confirmed = l.arrived
			c.send(p, protocol.Notice{Reason: protocol.Arriving, Rank: p, Call: c.call})
		}
	}
	c.idle = c.moves
	return nil
}

// ask tells rank p that this rank waits for it.
func (c *engine) ask(p int) {
	l := &c.peers[p]
	n := protocol.Notice{Reason: protocol.Waiting, Rank: p, Call: c.call}
	if l.sending {
		n.Index, n.Bytes = l.outIndex-1, l.size[0]
	}
	c.send(p, n)
}

// timedOut names the ranks that had not come: those that sent nothing at all, or else
// those that did not send enough, or else those that do not take what is sent to them. It
// names a rank that has said that it waits in this call, too, only if there is no other;
// known reports whether there is.
func (c *engine) timedOut() (e *protocol.PeerError, known bool) {
	var missing []int
	for _, absent := range []func(l *peer) bool{
		func(l *peer) bool { return l.receiving && l.rcvd == 0 && l.got == 0 && len(l.early) == 0 },
		func(l *peer) bool { return l.receiving },
		func(l *peer) bool { return l.sending },
		func(l *peer) bool { return l.pending() },
	} {
		for _, known = range []bool{true, false} {
			for p := range c.peers {
				if l := &c.peers[p]; p != c.rank && absent(l) && (!known || l.waits != c.hash) {
					missing = append(missing, p)
				}
			}
			if missing != nil {
				break
			}
		}
		if missing != nil {
			break
		}
	}
	e = &protocol.PeerError{Rank: -1, Missing: missing, Call: c.call, Err: protocol.ErrTimeout}
	if missing != nil {
		e.Rank = missing[0]
	}
	return e, known
}
