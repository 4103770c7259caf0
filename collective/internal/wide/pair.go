package wide

import (
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// Sends that cross
//
// A Send is done when the peer's sockets have taken all of it, so two ranks that send
// each other more than sockets hold, and receive only then, would wait for each other.
// Therefore a Send that does not get through says so (reasonWaiting, with its length and
// its place among the transfers of that direction), and a rank that is told while it is
// itself in a Send takes the transfer into memory of its own, where its Recv will find
// it. The data of a Send that is received in time is never copied.

// maxEarly is the most bytes that a comm holds of what others sent before it was
// received.
const maxEarly = 1 << 30

// early is a transfer that was taken in before its Recv.
type early struct {
	call plan.Call
	buf  []byte
	done bool
}

// sending is the job of Send.
type sending struct {
	c     *Comm
	to    int
	buf   []byte
	asked bool
}

func (s *sending) sends(p int) int              { return one(p == s.to) }
func (s *sending) recvs(p int) int              { return 0 }
func (s *sending) send(p, i int) ([]byte, bool) { return s.buf, true }
func (s *sending) recv(p, i int) ([]byte, bool) { return nil, false }

func (s *sending) work() bool {
	if l := &s.c.links[s.to]; l.sending && !s.asked {
		s.asked = true
		s.c.ask(s.to)
	}
	return false
}

// takeIn begins to receive what p has told that it sends, if this is a Send too.
func (c *Comm) takeIn(p int, l *link, n notice) *plan.PeerError {
	if c.job == nil || c.call.Kind != plan.Send || l.receiving || n.index != l.inIndex || n.bytes > uint64(maxEarly-c.orphan) {
		return nil
	}
	e := &early{call: n.call, buf: make([]byte, n.bytes)}
	if err := c.beginRecv(l, n.call.Hash(), e.buf); err != nil {
		return c.broke(p, l, err)
	}
	c.orphan += len(e.buf)
	l.early = append(l.early, e)
	return nil
}

// takeEarly gives the call under way the oldest piece that p sent before it was received;
// false if it can't yet, or if it is not what the call expects.
func (c *Comm) takeEarly(p int, l *link) (bool, *plan.PeerError) {
	b, ok := c.job.recv(p, l.rcvd)
	if !ok {
		return false, nil
	}
	e := l.early[0]
	if e.call.Hash() != c.hash || len(e.buf) != len(b) {
		return false, c.differ(p, c.call, e.call)
	}
	kernel.Copy(b, e.buf)
	c.orphan -= len(e.buf)
	l.early[0] = nil
	l.early = l.early[1:]
	l.rcvd++
	c.moves++
	return true, nil
}
