package crosshost

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
)

// Defaults of Options.
const (
	DefaultTimeout = 30 * time.Second
	DefaultChunk   = 256 << 10
	DefaultOneShot = 48 << 10
	DefaultPair    = 128 << 10
)

// Options are the options of New. The zero value and nil are the defaults, but for
// Waiter, which New needs. All ranks must have the same Chunk, OneShot, Pair, Fold and
// Order; New compares them.
type Options struct {
	// Waiter is the one that all conns were opened with.
	Waiter ipc.Waiter

	// Timeout is how long a call waits while nothing arrives and nothing goes, to within
	// an eighth of it: for ranks that do not come or have stopped. A call that is only
	// slow may take any time. 0: DefaultTimeout.
	Timeout time.Duration

	// Logger is told, at debug level, why a comm died; callers know by the error. nil
	// discards.
	Logger *slog.Logger

	// Fold is the bracketing of reductions; see protocol.Fold. nil: from the left.
	Fold protocol.Fold

	// Order lists the ranks as Fold counts them. nil: by number.
	Order []int

	// Chunk is the bytes of a piece that is sent, folded and passed on as one: some of
	// them fit a level 2 cache. A multiple of 64. 0: DefaultChunk.
	Chunk int

	// OneShot is the largest buffer of an all-reduce, reduce or broadcast, in bytes, that
	// goes in one step. Larger ones are cut into a part for every rank. 0:
	// DefaultOneShot, divided by the number of other ranks, for a rank sends as many
	// copies; negative: none is.
	OneShot int

	// Pair is OneShot between two ranks, where one step moves no more bytes than two do.
	// 0: DefaultPair; negative: none.
	Pair int
}

// Stats are counters of a comm since New.
type Stats struct {
	SentBytes, RecvBytes uint64 // of data, by finished transfers
}

// Comm is one rank's end of a communicator between hosts.
//
// One goroutine at a time may call it; a second one waits. Abort, Err and Stats may be
// called by any goroutine at any time. The first error of a call on any rank kills the
// comm on all of them: every later call returns that error at once.
type Comm struct {
	engine
	mu      sync.Mutex // held by the call under way
	chunk   int
	oneShot int
	jobs    jobs
	fold    kernel.Folder
	memory  scratch
	closed  atomic.Bool
}

// jobs are those that most calls need, for use again and again.
type jobs struct {
	moving  moving
	cutting cutting
	even    []int // counts of parts of one length
}

// forget lets go of the caller's buffers.
func (j *jobs) forget() {
	clear(j.moving.out)
	j.cutting.dst, j.cutting.src, j.cutting.all = nil, nil, nil
}

// New makes a comm of rank among len(conns) ranks. conns holds a conn to each of the
// others, at its rank, and nil at rank. Every conn has ipc.Features.Bulk and was opened
// with Options.Waiter. The comm owns the conns, also when New fails. All ranks call New
// at the same time: they greet each other, and compare their options. The context bounds
// that, and DefaultTimeout, or Options.Timeout if that is longer.
//
// Errors: *protocol.PeerError as for calls, protocol.ErrBadCall for wrong arguments.
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

// open makes what needs no other rank.
func open(rank int, conns []ipc.Conn, options *Options) (*Comm, error) {
	o := *cmp.Or(options, &Options{})
	n := len(conns)
	switch {
	case rank < 0 || rank >= n:
		return nil, fmt.Errorf("%w: rank %d of %d", protocol.ErrBadCall, rank, n)
	case o.Waiter == nil:
		return nil, fmt.Errorf("%w: Options.Waiter is nil, expected the one of the conns", protocol.ErrBadCall)
	case o.Timeout < 0:
		return nil, fmt.Errorf("%w: Timeout %v, expected nothing negative", protocol.ErrBadCall, o.Timeout)
	case o.Chunk < 0 || o.Chunk%64 != 0:
		return nil, fmt.Errorf("%w: Chunk %d, expected a multiple of 64", protocol.ErrBadCall, o.Chunk)
	}
	fold, err := kernel.NewFolder(kernel.Best(), o.Fold, o.Order, n)
	if err != nil {
		return nil, err
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Chunk = cmp.Or(o.Chunk, DefaultChunk)
	o.OneShot = cmp.Or(o.OneShot, DefaultOneShot/max(1, n-1))
	o.Pair = cmp.Or(o.Pair, DefaultPair)
	if n == 2 {
		o.OneShot = o.Pair
	}
	c := &Comm{chunk: o.Chunk, oneShot: o.OneShot, fold: fold}
	c.rank, c.n, c.peers = rank, n, make([]peer, n)
	c.waiter, c.log = o.Waiter, o.Logger.With("rank", rank)
	c.step, c.jobs.even = c.advance, make([]int, n)
	c.clock.start(o.Timeout, o.Waiter)
	for p, conn := range conns {
		if (conn == nil) != (p == rank) {
			return nil, fmt.Errorf("%w: conn %d of rank %d, expected one for each other rank", protocol.ErrBadCall, p, rank)
		}
		if p == rank {
			continue
		}
		bulk := conn.Features().Bulk
		if bulk == nil {
			return nil, fmt.Errorf("%w: the conn to rank %d moves messages only, expected ipc.Features.Bulk", protocol.ErrBadCall, p)
		}
		c.peers[p].conn, c.peers[p].bulk = conn, bulk
	}
	return c, nil
}

// Stats returns the counters so far.
func (c *Comm) Stats() Stats {
	return Stats{SentBytes: c.stats.sentBytes.Load(), RecvBytes: c.stats.recvBytes.Load()}
}

// Abort kills the comm: the call under way and all later ones fail, with
// protocol.ErrAborted here and on the other ranks, where the error names this rank and
// has err's text.
func (c *Comm) Abort(err error) {
	c.kill(&protocol.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: %w", protocol.ErrAborted, err)})
}

// Close tells the others that this rank leaves, which is no error for ranks that need
// nothing from it any more, and closes the conns. A call under way fails. Further calls
// do nothing.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.dead.Load() == nil {
		c.tell(protocol.Notice{Reason: protocol.Left, Rank: c.rank})
		c.dead.CompareAndSwap(nil, &protocol.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: the comm is closed", protocol.ErrAborted)})
	}
	c.waiter.Wake()
	c.clock.close()
	c.mu.Lock() // the call under way has returned
	defer c.mu.Unlock()
	for p := range c.peers {
		if p != c.rank {
			c.peers[p].conn.Close()
		}
	}
	c.memory = scratch{}
	return nil
}
