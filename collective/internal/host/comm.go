package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// parkTime is the longest a waiting rank sleeps before it looks at conns, contexts and clocks: what a death that nobody
// announces takes to be seen, at most.
const parkTime = 10 * time.Millisecond

// Comm is one rank's end of a communicator on one host.
//
// One goroutine at a time may call it; a second one waits. Abort, Alloc, Free, Poll and Err may be called by any at
// any time. The first error of a call on any rank kills the comm on all of them: every later call returns that error at
// once.
type Comm struct {
	rank, n int
	fold    folder
	inLine  int // most bytes of a source that stand beside a mark
	flat    int
	chunk   int
	spread  int // most bytes of a broadcast whose root does not wait
	staged  bool
	timeout time.Duration
	log     *slog.Logger
	conns   []ipc.Conn // by rank, nil at rank
	threads bool       // a rank is a goroutine of this process: they share its Ps

	mu      sync.Mutex // held by the call under way, unless it was prepared
	call    *plan.Call // the one under way, or the last
	word    uint64
	ctx     context.Context
	timing  bool          // began is set
	began   time.Time     // the call's first look at the clock
	until   time.Duration // after began, when to give up; 0: too early to say
	looks   uint64        // what own.looks says
	epoch   uint64        // of the last meeting
	next    int           // rank that is looked at next: those before are here
	held    [2]uint64     // the staging slots that this rank fills, see slots.go
	turn    int           // of those, the one that was used last
	spins   int           // looks at a line before the waiter takes over
	cores   cores
	letter  letterWait
	window  window
	readers uint64             // place of the call whose readers are waited for, 0: of none
	noted   [notices]plan.Call // what stands in the places of this rank's notices, but for Seq
	post    *ring.Waiter
	ready   func() bool
	stop    func() bool

	other Prepared     // the last call that was not prepared by its caller
	said  [2]*Prepared // whose call stands in the page

	own   *page
	peers []peer // by rank; at rank only the page
	two   duo
	room  rooms
	seg   *shm.Segment // of own

	memory memory

	dead   atomic.Pointer[plan.PeerError]
	ending sync.Mutex // held to write the obituary, and to unmap the page
	gone   bool       // the page is unmapped; under ending
	closed atomic.Bool

	stats struct{ calls, small, direct, staged, bytes uint64 } // under mu
}

// peer is what this rank has of one rank.
type peer struct {
	*page
	seg      *shm.Segment // of page
	segments []theirs     // what it has handed over, by number from 1
	sent     uint64       // messages to it
	received uint64       // messages from it
	noticed  uint64       // notices of it that were taken; at rank, put on its board
	looked   uint64       // its looks some time before this rank gives up
	lent     []*shm.Block // what those hold that it has not acknowledged, oldest first; nil for those without
}

// Stats are counters of a comm since New.
type Stats struct {
	Calls  uint64 // collectives, sends and receives begun
	Small  uint64 // of those, by lines and flat slots
	Direct uint64 // where it lies: registered memory, or what is shown
	Staged uint64 // through staging slots
	Bytes  uint64 // of what this rank gave to calls
	Memory int64  // bytes of registered memory's segments
	Waits  ring.WaiterStats
}

// New makes a comm of rank among len(conns) ranks of one host, one conn to each of the others, at its rank; the place of rank
// itself is nil. The conns carry files. The comm owns them, also when New fails, and closes them in Close. All ranks call
// New at the same time: they exchange the pages they meet in, and compare their options. The context bounds that, and
// DefaultTimeout, or Options.Timeout if it is longer.
//
// Errors: *plan.PeerError as for calls, plan.ErrBadCall for arguments that cannot be, shm.ErrNoSpace.
func New(ctx context.Context, rank int, conns []ipc.Conn, options *Options) (*Comm, error) {
	c, err := open(rank, conns, options)
	if err == nil {
		if err = c.greet(ctx); err == nil {
			return c, nil
		}
	}
	if c != nil {
		c.release()
	}
	for _, conn := range conns {
		if conn != nil {
			conn.Close()
		}
	}
	return nil, err
}

// open makes what a rank has by itself. The comm is not nil when there is something to release.
func open(rank int, conns []ipc.Conn, options *Options) (*Comm, error) {
	n := len(conns)
	if rank < 0 || rank >= n || n > MaxRanks {
		return nil, fmt.Errorf("%w: rank %d of %d, at most %d", plan.ErrBadCall, rank, n, MaxRanks)
	}
	o, err := options.withDefaults(n)
	if err != nil {
		return nil, err
	}
	c := &Comm{rank: rank, n: n, inLine: inLineOf(n), flat: o.Flat, chunk: o.Chunk, spread: defaultSpread(n, o.Flat, o.Chunk), staged: o.Staged,
		timeout: o.Timeout, log: o.Logger.With("rank", rank), conns: conns, peers: make([]peer, n), room: newRooms(n), ctx: context.Background(),
		call: &plan.Call{}, spins: maxSpins, held: [2]uint64{0, 1}}
	c.fold = newFolder(kernel.Best(), o.Fold, n)
	for p, conn := range conns {
		if (conn == nil) != (p == rank) {
			return nil, fmt.Errorf("%w: rank %d needs a conn to everybody but itself: conn %d", plan.ErrBadCall, rank, p)
		}
		if conn != nil && conn.Peer().PID == os.Getpid() {
			c.threads = true
		}
	}
	s := shapeOf(n, c.flat, c.chunk)
	if c.seg, err = shm.Create(int64(s.size), &shm.Options{Backing: shm.Memfd, Prefault: true}); err != nil {
		return nil, err
	}
	if err = initPage(c.seg.Bytes(), s, rank); err != nil {
		return c, err
	}
	futex := ring.Futex{Wait: shm.FutexWait, Wake: shm.FutexWake, Barrier: shm.Barrier, Heed: shm.HeedBarriers}
	if c.own, err = attach(c.seg.Bytes(), s, rank, futex); err != nil {
		return c, err
	}
	c.peers[rank].page = c.own
	c.post = ring.NewWaiter(c.own.bell, &ring.WaiterOptions{Park: parkTime})
	c.ready, c.stop = c.here, c.look
	if c.cores.mine = noCore; !c.threads {
		c.cores = newCores(n, c.post.Pauses())
	}
	c.tellCore()
	c.memory.blocks = map[*byte]*shm.Block{}
	c.memory.arena, err = shm.NewArena(&shm.ArenaOptions{First: firstBytes, OnSegment: c.share,
		Segment: shm.Options{Backing: shm.Memfd, Prefault: true}})
	return c, err
}

// Rank is this end's rank.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.n }

// Stats returns the counters so far. It waits for a call that is under way.
func (c *Comm) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.stats
	return Stats{Calls: s.calls, Small: s.small, Direct: s.direct, Staged: s.staged,
		Bytes: s.bytes, Memory: c.memory.arena.Stats().Bytes, Waits: c.post.Stats()}
}

// Err is nil while the comm works, afterwards why it does not: a *plan.PeerError.
func (c *Comm) Err() error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	return nil
}

// Abort kills the comm: the call under way and all later ones fail, with plan.ErrAborted here and on the other ranks, where
// the error names this rank and has err's text.
func (c *Comm) Abort(err error) {
	c.kill(&plan.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: %w", plan.ErrAborted, err)})
}

// Poll looks at what the others have to say while no call is under way, and returns Err: so a rank that is busy elsewhere
// learns that another has failed. It does not wait.
func (c *Comm) Poll() error {
	if c.dead.Load() == nil && c.mu.TryLock() {
		if !c.closed.Load() {
			c.call = &plan.Call{}
			c.obituaries()
		}
		c.mu.Unlock()
	}
	return c.Err()
}

// Close tells the others that this rank leaves, which is no error for those that need nothing from it any more, and
// closes the conns. A call under way fails. What Alloc returned is gone. Further calls do nothing.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.end(&plan.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: the comm is closed", plan.ErrAborted)}, obituary{state: left})
	c.mu.Lock() // the call under way has returned
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if conn != nil {
			conn.Close()
		}
	}
	c.release()
	return nil
}

// release unmaps everything.
func (c *Comm) release() {
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
	c.memory.mu.Lock()
	for first, b := range c.memory.blocks {
		delete(c.memory.blocks, first)
		b.Release()
	}
	c.memory.mu.Unlock()
	if c.memory.arena != nil {
		c.memory.arena.Close()
	}
	c.seg.Close()
}
