package wide

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// How a call fails
//
// Whoever finds out tells everybody, once, with a notice: that a rank is lost, that ranks
// did not come, that calls do not match, that it gives up. Whoever is told fails with the
// same cause. So all ranks know within the time of one message, those too that wait for a
// third that is well. A rank that waits in silence tells those it waits for in which
// call, again and again; so ranks that wait for each other in different calls find out,
// where no data ever meets.

// askTime is how long a rank that has met a mismatch waits to hear what the other one
// wanted, or the timeout of a call if that is less.
const askTime = time.Second

// errUnsettled: there is a mismatch, but what the other rank wanted is not known.
var errUnsettled = errors.New("collective: another call")

// kill makes e the comm's end, if it is the first, and tells the others. It returns the
// end.
func (c *Comm) kill(e *plan.PeerError) *plan.PeerError {
	if !c.dead.CompareAndSwap(nil, e) {
		return c.dead.Load()
	}
	c.log.Debug("collective: failed", "err", e)
	c.tell(noticeOf(e, c.rank))
	c.waiter.Wake()
	return e
}

// noticeOf is what the others are told of e.
func noticeOf(e *plan.PeerError, self int) notice {
	n := notice{rank: e.Rank, call: e.Call, missing: e.Missing, text: e.Err.Error()}
	switch {
	case errors.Is(e, plan.ErrAborted): // whatever the reason, which may be one of those below
		n.reason = reasonAborted
	case errors.Is(e, plan.ErrMismatch):
		n.reason = reasonMismatch
		if m := (*plan.MismatchError)(nil); errors.As(e, &m) {
			n.theirs = m.Theirs
		}
	case errors.Is(e, plan.ErrTimeout):
		n.reason = reasonTimeout
	case errors.Is(e, plan.ErrPeerLost):
		n.reason = reasonLost
	default:
		n.reason, n.rank = reasonAborted, self
	}
	return n
}

// tell sends n to everybody who has room for it. Any goroutine may call it.
func (c *Comm) tell(n notice) {
	for p := range c.links {
		if p != c.rank {
			c.send(p, n)
		}
	}
}

func (c *Comm) send(p int, n notice) {
	c.notify.Lock()
	defer c.notify.Unlock()
	conn := c.links[p].conn
	if conn == nil {
		return
	}
	body := n.append(nil)
	buf, err := conn.TryReserve(noticeKind, len(body))
	if err != nil {
		return // it is gone, or its queue is full of notices already
	}
	copy(buf, body)
	if conn.Commit() == nil {
		c.stats.sentNotices.Add(1)
	}
}

// read takes in what the others have to say. The caller holds c.mu.
func (c *Comm) read() *plan.PeerError {
	for p := range c.links {
		l := &c.links[p]
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
			e := c.told(p, l, m)
			if e != nil {
				return e
			}
		}
	}
	return c.mourn()
}

// mourn returns an error if somebody this call still needs is gone.
func (c *Comm) mourn() *plan.PeerError {
	if c.job == nil {
		return nil
	}
	for p := range c.links {
		l := &c.links[p]
		if p == c.rank || !l.pending() {
			continue
		}
		switch {
		case l.broken != nil && (l.gone != nil || c.tick > l.brokenAt+1):
			return c.lost(p, l.broken)
		case l.gone != nil && !l.left:
			// What it sent before it died may still be on the way; what it sends is what
			// it promised only when it said that it leaves.
			return c.lost(p, l.gone)
		}
	}
	return nil
}

// told judges one message from p.
func (c *Comm) told(p int, l *link, m ipc.Message) *plan.PeerError {
	c.stats.gotNotices.Add(1)
	for _, f := range m.Files {
		f.Close()
	}
	var n notice
	err := fmt.Errorf("message of kind %#x, expected %#x", m.Kind, noticeKind)
	if m.Kind == noticeKind {
		n, err = parseNotice(m.Body, c.n)
	}
	l.conn.Release()
	if err != nil {
		return c.lost(p, fmt.Errorf("%w: %w", ipc.ErrCorrupt, err))
	}
	switch n.reason {
	case reasonLeft:
		l.left = true
	case reasonWaiting:
		return c.awaited(p, l, n)
	case reasonArriving:
		if l.sending {
			c.moves++
		}
	case reasonMismatch:
		return c.compared(p, n)
	case reasonTimeout:
		e := &plan.PeerError{Rank: n.rank, Missing: n.missing, Call: c.call, Err: plan.ErrTimeout}
		if n.rank == c.rank {
			e.Err = fmt.Errorf("%w: rank %d waited for this rank in %v", plan.ErrTimeout, p, n.call)
		} else if n.call != c.call {
			e.Err = fmt.Errorf("%w: rank %d waited in %v", plan.ErrTimeout, p, n.call)
		}
		return e
	case reasonLost:
		if n.rank == c.rank { // it lost us, so have we lost it
			n.rank = p
		}
		return &plan.PeerError{Rank: n.rank, Call: c.call, Err: fmt.Errorf("%w, says rank %d: %s", plan.ErrPeerLost, p,
			strings.TrimPrefix(n.text, plan.ErrPeerLost.Error()+": "))}
	case reasonAborted:
		return &plan.PeerError{Rank: n.rank, Call: c.call, Err: fmt.Errorf("%w: %s", plan.ErrAborted,
			strings.TrimPrefix(n.text, plan.ErrAborted.Error()+": "))}
	}
	return nil
}

// ours is what this rank wanted or wants at the place of a peer's call, the zero Call if
// it is not there yet or can't say.
func (c *Comm) ours(theirs plan.Call) plan.Call {
	if mine := c.past[theirs.Seq%uint64(len(c.past))]; mine.Seq == theirs.Seq && mine.Kind.Paired() == theirs.Kind.Paired() {
		return mine
	}
	return plan.Call{}
}

// awaited: p waits in n.call. It may wait for a call that this rank never makes.
func (c *Comm) awaited(p int, l *link, n notice) *plan.PeerError {
	l.waits = n.call.Hash()
	if n.call.Kind == plan.Send {
		return c.takeIn(p, l, n)
	}
	if n.call.Kind.Paired() || n.call.Kind == plan.NoKind {
		return nil // sends and receives have counts of their own
	}
	if mine := c.ours(n.call); mine.Kind != plan.NoKind && mine.Hash() != n.call.Hash() {
		return c.differ(p, mine, n.call)
	}
	return nil
}

func (c *Comm) differ(p int, ours, theirs plan.Call) *plan.PeerError {
	call := c.call
	if call.Kind == plan.NoKind {
		call = ours
	}
	return &plan.PeerError{Rank: p, Call: call, Err: &plan.MismatchError{Ours: ours, Theirs: theirs}}
}

// compared: p has met a rank that is in another call than it.
func (c *Comm) compared(p int, n notice) *plan.PeerError {
	mine := c.ours(n.call)
	if mine.Kind == plan.NoKind {
		mine = c.call
	}
	switch {
	case mine.Kind == plan.NoKind: // the next call will tell
		if len(c.held) < c.n {
			c.held = append(c.held, heldNotice{p, n})
		}
		return nil
	case mine.Hash() != n.call.Hash():
		return c.differ(p, mine, n.call)
	case n.theirs.Kind != plan.NoKind && n.rank >= 0:
		return c.differ(n.rank, mine, n.theirs)
	}
	return &plan.PeerError{Rank: n.rank, Call: c.call, Err: errUnsettled}
}

// heldNotice is of a mismatch, and came while no call was under way.
type heldNotice struct {
	from   int
	notice notice
}

// heldBack is what the notices that were held say to the call that now begins.
func (c *Comm) heldBack() (e *plan.PeerError) {
	for _, h := range c.held {
		if e = c.compared(h.from, h.notice); e.Err != errUnsettled {
			break
		}
	}
	return e
}

// settle makes e the comm's end; a mismatch only when it is known what the other rank
// wanted, or when it did not say.
func (c *Comm) settle(e *plan.PeerError) *plan.PeerError {
	var m *plan.MismatchError
	known := errors.As(e, &m) && m.Theirs.Kind != plan.NoKind
	if known || !errors.Is(e, plan.ErrMismatch) && e.Err != errUnsettled {
		return c.kill(e)
	}
	if e.Err == errUnsettled {
		e.Err = &plan.MismatchError{Ours: c.call}
	}
	c.tell(noticeOf(e, c.rank))
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

func (c *Comm) allGone() bool {
	for p := range c.links {
		if p != c.rank && c.links[p].gone == nil {
			return false
		}
	}
	return true
}

// cancelled is the end that a context's error is.
func (c *Comm) cancelled(err error) *plan.PeerError {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e, _ := c.timedOut()
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
		return e
	}
	return &plan.PeerError{Rank: c.rank, Call: c.call, Err: err}
}

// overdue is called at every tick of the clock. It ends a call in which nothing has moved
// for too long; when nothing has for a while, it tells the others in which call this rank
// waits; and it tells those whose data is arriving, for they see only when all has gone.
func (c *Comm) overdue() *plan.PeerError {
	if e := c.mourn(); e != nil {
		return e
	}
	if c.idle != c.moves {
		c.late = c.tick + c.clock.limit
	}
	if over := int32(c.tick - c.late); over >= 0 {
		// Those this rank waits for may be waiting themselves: who waits for somebody who
		// is not knows whom to name, and will say so.
		if e, known := c.timedOut(); known || over > int32(c.clock.limit/4)+1 {
			return e
		}
	}
	for p := range c.links {
		l := &c.links[p]
		switch {
		case p == c.rank:
		case c.idle == c.moves:
			c.ask(p)
		case l.receiving && l.arrived != l.thanked:
			l.thanked = l.arrived
			c.send(p, notice{reason: reasonArriving, rank: p, call: c.call})
		}
	}
	c.idle = c.moves
	return nil
}

// ask tells p that this rank waits for it.
func (c *Comm) ask(p int) {
	l := &c.links[p]
	n := notice{reason: reasonWaiting, rank: p, call: c.call}
	if l.sending {
		n.index, n.bytes = l.outIndex-1, l.size[0]
	}
	c.send(p, n)
}

// timedOut names those that had not come: who sent nothing at all, or else who did not
// send enough, or else who does not take what is sent to it. Who has said that he waits
// in this call too is not named if anybody has not; known says whether anybody has not.
func (c *Comm) timedOut() (e *plan.PeerError, known bool) {
	var missing []int
	for _, absent := range []func(l *link) bool{
		func(l *link) bool { return l.receiving && l.rcvd == 0 && l.got == 0 && len(l.early) == 0 },
		func(l *link) bool { return l.receiving },
		func(l *link) bool { return l.sending },
		func(l *link) bool { return l.pending() },
	} {
		for _, known = range []bool{true, false} {
			for p := range c.links {
				if l := &c.links[p]; p != c.rank && absent(l) && (!known || l.waits != c.hash) {
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
	e = &plan.PeerError{Rank: -1, Missing: missing, Call: c.call, Err: plan.ErrTimeout}
	if missing != nil {
		e.Rank = missing[0]
	}
	return e, known
}
