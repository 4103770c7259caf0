package onehost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
)

// ranks is what a rank holds of all ranks: the pages, the conns, the call it is in, and
// the end of the comm.
//
// # How a call fails
//
// A rank that finds an error publishes a death notice in its own page and rings every
// bell. The others fail with the same cause. So all ranks know within one look of each
// other, also those that wait for a third rank, which is well. A rank that dies publishes
// nothing: its conns end, which the ranks that wait for it see.
type ranks struct {
	rank, n int
	timeout time.Duration
	log     *slog.Logger
	conns   []ipc.Conn // by rank, nil at rank
	threads bool       // a rank is a goroutine of this process: they share its Ps

	self  *page
	seg   *shm.Segment // of self
	peers []peer       // by rank; at rank only the page

	call *protocol.Call // the one under way, or the last
	hash uint64         // of call
	ctx  context.Context
	// hashes of the last calls of all ranks, by Seq modulo recentCalls
	recent [recentCalls]uint64

	dead   atomic.Pointer[protocol.PeerError]
	ending sync.Mutex // held to publish a death notice, and to unmap the page
	gone   bool       // the page is unmapped; under ending
}

// recentCalls is more than the calls by which a rank can be ahead of another: those are
// the broadcasts between two meetings, and the meeting after them.
const recentCalls = 2 * entries

// peer is what this rank holds of one rank.
type peer struct {
	*page
	seg      *shm.Segment // of page
	segments []segment    // that it has handed over, by number from 1
	entries  uint64       // of its board that were taken; at rank, put there
	sent     uint64       // messages to it
	received uint64       // messages from it
	// contents of messages it has not acknowledged, oldest first; nil for none
	lent   []*shm.Block
	looked uint64 // its looks some time before this rank gives up
}

// release unmaps the pages and the peers' segments.
func (c *ranks) release() {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.gone = true
	for p := range c.peers {
		peer := &c.peers[p]
		for _, b := range peer.lent {
			if b != nil {
				b.Release()
			}
		}
		peer.lent = nil
		for _, s := range peer.segments {
			s.Close()
		}
		if peer.seg != nil {
			peer.seg.Close()
		}
	}
	c.seg.Close()
}

// ring rings the bells of all other ranks.
func (c *ranks) ring() {
	for p := range c.peers {
		if p != c.rank {
			c.peers[p].bell.Ring()
		}
	}
}

// kill makes e the comm's end, if it is the first, and tells the others. It returns the
// end.
func (c *ranks) kill(e *protocol.PeerError) *protocol.PeerError {
	return c.end(e, protocol.NoticeOf(e, c.rank))
}

// end is kill with another death notice than that of e.
func (c *ranks) end(e *protocol.PeerError, d protocol.Notice) *protocol.PeerError {
	if !c.dead.CompareAndSwap(nil, e) {
		return c.dead.Load()
	}
	if d.Reason != protocol.Left {
		c.log.Debug("collective: failed", "err", e)
	}
	c.ending.Lock()
	defer c.ending.Unlock()
	if c.gone {
		return e
	}
	c.self.publish(d)
	for p := range c.peers {
		if page := c.peers[p].page; page != nil {
			page.bell.Ring()
		}
	}
	return e
}

// corrupt kills the comm because of what rank p wrote.
func (c *ranks) corrupt(p int, err error) error {
	return c.kill(&protocol.PeerError{Rank: p, Call: *c.call,
		Err: fmt.Errorf("%w: %w: %w", protocol.ErrPeerLost, ipc.ErrCorrupt, err)})
}

// mismatch returns the error about rank p, which is in the encoded call. It leaves the
// call out if the upper half of its hash is not the given one.
func (c *ranks) mismatch(p int, encoded []byte, upper uint32) *protocol.PeerError {
	theirs, err := protocol.DecodeCall(append([]byte(nil), encoded...))
	if err != nil || uint32(hashOf(theirs)>>32) != upper {
		theirs = protocol.Call{}
	}
	return &protocol.PeerError{Rank: p, Call: *c.call, Err: &protocol.MismatchError{Ours: *c.call, Theirs: theirs}}
}

// reported returns what the death notice of rank p means for this rank.
func (c *ranks) reported(p int, d protocol.Notice) *protocol.PeerError {
	if d.Reason != protocol.Mismatched {
		return d.AsError(p, c.rank, *c.call)
	}
	e, theirs := &protocol.PeerError{Rank: d.Rank, Call: *c.call}, d.Theirs
	// p, or a third rank, differs from what this rank called then
	if d.Rank == c.rank || hashOf(d.Call) != c.recent[d.Call.Seq%recentCalls] {
		e.Rank, theirs = p, d.Call
	}
	e.Err = &protocol.MismatchError{Ours: *c.call, Theirs: theirs}
	return e
}

// lostOrLate returns the sentinel for an error of a conn.
func lostOrLate(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return protocol.ErrTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return protocol.ErrAborted
	}
	return protocol.ErrPeerLost
}

const golden = 0x9e3779b97f4a7c15 // odd, so that no two Seqs have one multiple

// hashOf returns what ranks compare of calls. It adds Seq to the hash of the rest, so
// that a loop which makes one call again and again hashes the rest once.
func hashOf(call protocol.Call) uint64 {
	seq := call.Seq
	call.Seq = 0
	return call.Hash() + seq*golden
}
