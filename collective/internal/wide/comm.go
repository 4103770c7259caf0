package wide

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
)

// Defaults of Options.
const (
	DefaultTimeout = 30 * time.Second
	DefaultChunk   = 256 << 10
	DefaultOneShot = 48 << 10
	DefaultPair    = 128 << 10
)

// Options of New. The zero value and nil are the defaults, but for Waiter, which New
// needs. All ranks must have the same Chunk, OneShot, Pair and Fold; New compares them.
type Options struct {
	// Waiter is what all the conns were opened with.
	Waiter ipc.Waiter

	// Timeout is how long a call waits while nothing arrives and nothing goes, to within
	// an eighth of it: for ranks that do not come or have stopped. A call that is only
	// slow may take any time. 0: DefaultTimeout.
	Timeout time.Duration

	// Logger is told, as debugging, why a comm died: who uses it knows by the error. nil
	// discards.
	Logger *slog.Logger

	// Fold is the bracketing of reductions; see plan.Fold. nil: from the left.
	Fold plan.Fold

	// Chunk is the bytes of a piece that is sent, folded and passed on as one: some of
	// them fit a level 2 cache. A multiple of 64. 0: DefaultChunk.
	Chunk int

	// OneShot is the largest buffer of an all-reduce, reduce or broadcast, in bytes, that
	// goes in one step to whoever wants it. Larger ones are cut into a part for every
	// rank. 0: DefaultOneShot, divided by the others, for a rank sends as many copies;
	// negative: none is.
	OneShot int

	// Pair is OneShot between two ranks, where one step moves no more bytes than two do.
	// 0: DefaultPair; negative: none.
	Pair int
}

// Stats are counters of a comm since New.
type Stats struct {
	Calls                   uint64 // collectives begun
	SentBytes, RecvBytes    uint64 // of data, by finished transfers
	SentPieces, RecvPieces  uint64 // finished transfers
	SentNotices, GotNotices uint64 // messages about calls: late, failed, left
}

// Comm is one rank's end of a communicator between hosts.
//
// One goroutine at a time may call it; a second one waits. Abort, Poll, Err and Stats may
// be called by any at any time. The first error of a call on any rank kills the comm on
// all of them: every later call returns that error at once.
type Comm struct {
	rank, n int
	links   []link // by rank; the zero link at rank
	waiter  ipc.Waiter
	log     *slog.Logger
	fold    plan.Fold
	chunk   int
	oneShot int
	clock   clock

	mu     sync.Mutex // held by the call under way, and to read messages between calls
	call   plan.Call
	hash   uint64
	job    job
	failed *plan.PeerError // by the call under way
	tick   uint32          // the last one seen
	late   uint32          // when the call is late
	moves  uint64          // transfers and chunks so far
	idle   uint64          // moves at the last tick
	past   [8]plan.Call    // the last calls, by Seq modulo 8
	held   []heldNotice    // until the next call
	step   func() bool     // c.advance, for Waiter.Wait
	orphan int             // bytes held by links' early transfers

	jobs   jobs
	folder folder
	memory scratch

	dead   atomic.Pointer[plan.PeerError]
	closed atomic.Bool
	notify sync.Mutex // held to send messages

	stats struct{ calls, sentBytes, recvBytes, sentPieces, recvPieces, sentNotices, gotNotices atomic.Uint64 }
}

// New makes a comm of rank among len(conns) ranks, one conn to each of the others, at its
// rank; the place of rank itself is nil. Every conn has ipc.Features.Bulk and was opened
// with Options.Waiter. The comm owns the conns, also when New fails. All ranks call New
// at the same time: they greet each other, and learn whether their options agree. The
// context bounds that, and DefaultTimeout, or Options.Timeout if it is longer.
//
// Errors: *plan.PeerError as for calls, plan.ErrBadCall for arguments that cannot be.
func New(ctx context.Context, rank int, conns []ipc.Conn, o *Options) (*Comm, error) {
	c, err := open(rank, conns, o)
	if err == nil {
		if err = c.greet(ctx); err == nil {
			return c, nil
		}
		c.Close()
		return nil, err
	}
	for _, conn := range conns {
		if conn != nil {
			conn.Close()
		}
	}
	return nil, err
}

func open(rank int, conns []ipc.Conn, options *Options) (*Comm, error) {
	var o Options
	if options != nil {
		o = *options
	}
	n := len(conns)
	switch {
	case rank < 0 || rank >= n:
		return nil, fmt.Errorf("%w: rank %d of %d", plan.ErrBadCall, rank, n)
	case o.Waiter == nil:
		return nil, fmt.Errorf("%w: Options.Waiter is missing", plan.ErrBadCall)
	case o.Timeout < 0:
		return nil, fmt.Errorf("%w: Timeout %v is negative", plan.ErrBadCall, o.Timeout)
	case o.Chunk < 0 || o.Chunk%64 != 0:
		return nil, fmt.Errorf("%w: Chunk %d is not a multiple of 64", plan.ErrBadCall, o.Chunk)
	}
	if err := o.Fold.Check(n); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Chunk == 0 {
		o.Chunk = DefaultChunk
	}
	if o.OneShot == 0 {
		o.OneShot = DefaultOneShot / max(1, n-1)
	}
	if o.Pair == 0 {
		o.Pair = DefaultPair
	}
	if n == 2 {
		o.OneShot = o.Pair
	}
	c := &Comm{rank: rank, n: n, links: make([]link, n), waiter: o.Waiter, log: o.Logger.With("rank", rank),
		fold: append(plan.Fold(nil), o.Fold...), chunk: o.Chunk, oneShot: o.OneShot}
	c.step, c.jobs.even = c.advance, make([]int, n)
	c.clock.start(o.Timeout, o.Waiter)
	for p, conn := range conns {
		if (conn == nil) != (p == rank) {
			return nil, fmt.Errorf("%w: rank %d needs a conn to everybody but itself: conn %d", plan.ErrBadCall, rank, p)
		}
		if p == rank {
			continue
		}
		bulk := conn.Features().Bulk
		if bulk == nil {
			return nil, fmt.Errorf("%w: the conn to rank %d moves messages only", plan.ErrBadCall, p)
		}
		c.links[p].conn, c.links[p].bulk = conn, bulk
	}
	return c, nil
}

// Rank is this end's rank.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.n }

// Stats returns the counters so far.
func (c *Comm) Stats() Stats {
	s := &c.stats
	return Stats{
		Calls: s.calls.Load(), SentBytes: s.sentBytes.Load(), RecvBytes: s.recvBytes.Load(),
		SentPieces: s.sentPieces.Load(), RecvPieces: s.recvPieces.Load(),
		SentNotices: s.sentNotices.Load(), GotNotices: s.gotNotices.Load(),
	}
}

// Err is nil while the comm works, afterwards why it does not: a *plan.PeerError.
func (c *Comm) Err() error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	return nil
}

// Abort kills the comm: the call under way and all later ones fail, with plan.ErrAborted
// here and on the other ranks, where the error names this rank and has err's text.
func (c *Comm) Abort(err error) {
	c.kill(&plan.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: %w", plan.ErrAborted, err)})
}

// Poll reads what the others have to say while no call is under way, and returns Err: so
// a rank that is busy elsewhere learns that another has failed. It does not wait.
func (c *Comm) Poll() error {
	if c.dead.Load() == nil && c.mu.TryLock() {
		if e := c.read(); e != nil {
			c.kill(e)
		}
		c.mu.Unlock()
	}
	return c.Err()
}

// Close tells the others that this rank leaves, which is no error for those that need
// nothing from it any more, and closes the conns. A call under way fails. Further calls
// do nothing.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.dead.Load() == nil {
		c.tell(notice{reason: reasonLeft, rank: c.rank})
		c.dead.CompareAndSwap(nil, &plan.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: the comm is closed", plan.ErrAborted)})
	}
	c.waiter.Wake()
	c.clock.close()
	c.mu.Lock() // the call under way has returned
	defer c.mu.Unlock()
	for p := range c.links {
		if p != c.rank {
			c.links[p].conn.Close()
		}
	}
	c.memory = scratch{}
	return nil
}
