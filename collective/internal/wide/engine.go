package wide

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// job is one rank's part in a collective: which pieces it sends to whom and gets from
// whom, in which order for each pair, when a piece may begin, and what is computed in
// between. Everything is called by the goroutine of the call, again and again, and
// nothing waits.
type job interface {
	// sends and recvs are the numbers of pieces to and from p. There is a piece where
	// there is nothing to send but the peer has to know that this rank came.
	sends(p int) int
	recvs(p int) int

	// send is the i-th piece to p, false while it must not begin. So is recv for the
	// place of the i-th piece from p.
	send(p, i int) ([]byte, bool)
	recv(p, i int) ([]byte, bool)

	// work computes what can be computed now and says whether there was anything.
	work() bool
}

// link is what a comm knows of one of the others, and how far the call under way is with
// it. Only the call's goroutine touches it.
type link struct {
	conn ipc.Conn
	bulk ipc.Bulk // of conn

	sends, recvs       int // pieces of this call
	sent, rcvd         int // finished
	sending, receiving bool
	got                int       // bytes of the piece that is being received
	size               [2]uint64 // of the pieces under way, sent and received
	arrived, thanked   uint64    // times that something arrived, and that when the peer was last told
	out, in            [1][]byte

	outIndex, inIndex uint64 // transfers begun since New
	early             []*early
	waits             uint64 // the word of the last call that it said it waits in
	left              bool   // it said that it leaves
	gone              error  // no more messages can come, why
	broken            error  // bulk has ended, why
	brokenAt          uint32
}

func (l *link) pending() bool { return l.sent < l.sends || l.rcvd < l.recvs }

// run does one call. The caller holds c.mu.
func (c *Comm) run(ctx context.Context, call plan.Call, j job) error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	c.call, c.hash, c.job = call, call.Hash(), j
	if !call.Kind.Paired() {
		c.past[call.Seq%uint64(len(c.past))] = call
	}
	c.stats.calls.Add(1)
	waits := false
	for p := range c.links {
		l := &c.links[p]
		if p == c.rank {
			continue
		}
		l.sends, l.recvs, l.sent, l.rcvd = j.sends(p), j.recvs(p), 0, 0
		waits = waits || l.recvs > 0
	}
	c.tick = c.clock.begin()
	c.late, c.failed, c.idle = c.tick+c.clock.limit, nil, c.moves
	if len(c.held) > 0 {
		c.failed = c.heldBack()
	} else if !waits { // or it would never hear anything
		c.failed = c.read()
	}
	err := c.waiter.Wait(ctx, c.step)
	c.clock.end()
	c.job = nil
	c.jobs.forget()
	e := c.dead.Load()
	switch {
	case e != nil:
		return e
	case c.failed != nil:
		return c.settle(c.failed)
	case err != nil:
		return c.kill(c.cancelled(err))
	}
	c.call = plan.Call{}
	return nil
}

// jobs are those that most calls need, for use again and again.
type jobs struct {
	moving     moving
	exchanging exchanging
	cutting    cutting
	even       []int // counts of parts of one length
}

// forget lets go of the caller's buffers.
func (j *jobs) forget() {
	clear(j.moving.out)
	j.exchanging.dst, j.exchanging.src = nil, nil
	j.cutting.dst, j.cutting.src, j.cutting.all = nil, nil, nil
}

// advance moves the call under way on and says whether it has ended, one way or the
// other. The Waiter calls it.
func (c *Comm) advance() bool {
	if c.failed != nil || c.dead.Load() != nil {
		return true
	}
	done, err := c.progress()
	if err == nil && !done {
		err = c.read()
	}
	if tick := c.clock.ticks.Load(); err == nil && !done && tick != c.tick {
		c.tick = tick
		err = c.overdue()
	}
	c.failed = err
	return done || err != nil
}

// progress begins, continues and folds until nothing moves any more.
func (c *Comm) progress() (done bool, err *plan.PeerError) {
	for {
		moves := c.moves
		done = true
		for i := 1; i < c.n; i++ { // everybody begins with another, so that not all send to the same
			p := c.rank + i
			if p >= c.n {
				p -= c.n
			}
			l := &c.links[p]
			if l.sent < l.sends {
				if err := c.push(p, l); err != nil {
					return false, err
				}
			}
			if l.rcvd < l.recvs || l.receiving {
				if err := c.pull(p, l); err != nil {
					return false, err
				}
			}
			done = done && !l.pending()
		}
		if c.job.work() {
			c.moves++
		}
		if moves == c.moves {
			return done, nil
		}
	}
}

// push sends to p what can be sent now.
func (c *Comm) push(p int, l *link) *plan.PeerError {
	for l.sent < l.sends && l.broken == nil {
		if !l.sending {
			b, ok := c.job.send(p, l.sent)
			if !ok {
				return nil
			}
			l.out[0], l.size[0] = b, uint64(len(b))
			if err := l.bulk.BeginSend(c.hash, l.out[:]...); err != nil {
				return c.broke(p, l, err)
			}
			l.sending = true
			l.outIndex++
		}
		done, err := l.bulk.ProgressSend()
		if err != nil {
			return c.broke(p, l, err)
		}
		if !done {
			return nil
		}
		l.sending, l.out[0] = false, nil
		l.sent++
		c.moves++
		c.stats.sentPieces.Add(1)
		c.stats.sentBytes.Add(l.size[0])
	}
	return nil
}

// pull receives from p what has arrived.
func (c *Comm) pull(p int, l *link) *plan.PeerError {
	for (l.rcvd < l.recvs || l.receiving) && l.broken == nil {
		if len(l.early) > 0 && l.early[0].done && l.rcvd < l.recvs {
			if ok, e := c.takeEarly(p, l); !ok {
				return e
			}
			continue
		}
		if !l.receiving {
			b, ok := c.job.recv(p, l.rcvd)
			if !ok {
				return nil
			}
			if err := c.beginRecv(l, c.hash, b); err != nil {
				return c.broke(p, l, err)
			}
		}
		got, done, err := l.bulk.ProgressRecv()
		if err != nil {
			return c.broke(p, l, err)
		}
		if got != l.got {
			l.got = got
			l.arrived++
			c.moves++
		}
		if !done {
			return nil
		}
		l.receiving, l.in[0] = false, nil
		c.moves++
		c.stats.recvPieces.Add(1)
		c.stats.recvBytes.Add(l.size[1])
		if k := len(l.early); k > 0 && !l.early[k-1].done {
			l.early[k-1].done = true
			continue
		}
		l.rcvd++
	}
	return nil
}

func (c *Comm) beginRecv(l *link, word uint64, b []byte) error {
	l.in[0], l.size[1], l.got = b, uint64(len(b)), 0
	if err := l.bulk.BeginRecv(word, l.in[:]...); err != nil {
		return err
	}
	l.receiving = true
	l.inIndex++
	return nil
}

// broke judges an error of the bulk transfers with p.
func (c *Comm) broke(p int, l *link, err error) *plan.PeerError {
	if mismatch := (*ipc.BulkMismatchError)(nil); errors.As(err, &mismatch) {
		return &plan.PeerError{Rank: p, Call: c.call, Err: fmt.Errorf("%w (%v)", &plan.MismatchError{Ours: c.call}, err)}
	}
	if errors.Is(err, ipc.ErrPeerGone) && l.gone == nil {
		// Why it is gone may stand in the messages, which have a socket of their own:
		// read them first.
		l.broken, l.brokenAt = err, c.tick
		return nil
	}
	return c.lost(p, err)
}

func (c *Comm) lost(p int, err error) *plan.PeerError {
	return &plan.PeerError{Rank: p, Call: c.call, Err: fmt.Errorf("%w: %w", plan.ErrPeerLost, err)}
}
