package onehost

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// Comm is one rank's end of a communicator on one host.
//
// One goroutine at a time may call it; a second one waits. Abort, Alloc, Free, Show and
// Err may be called by any goroutine at any time. The first error of a call on any
// rank kills the comm on all of them: every later call returns that error at once.
type Comm struct {
	exchange
	mu       sync.Mutex              // held by the call of Do under way
	last     [protocol.Kinds]encoded // the last call of each kind that is not persistent
	declared [2]*encoded
	closed   atomic.Bool
}

// encoded is a call as the page holds it, and its hash.
type encoded struct {
	call protocol.Call // Seq is of the last time
	hash uint64        // of call, without Seq
	text [protocol.CallBytes]byte
}

// set makes e the encoding of a call.
func (e *encoded) set(call *protocol.Call) {
	e.call = *call
	e.call.Seq = 0
	e.hash = e.call.Hash()
	e.call.Encode(&e.text)
}

// New makes a comm of rank among len(conns) ranks of one host. conns holds a conn to each
// of the others, at its rank, and nil at rank. The conns carry files. The comm owns them,
// also when New fails, and closes them in Close. All ranks call New at the same time:
// they exchange their pages, and compare their options. The context bounds that, and
// DefaultTimeout, or Options.Timeout if that is longer.
//
// Errors: *protocol.PeerError as for calls, protocol.ErrBadCall for wrong arguments,
// shm.ErrNoSpace.
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

// open makes what needs no other rank. The comm is not nil when there is something to
// release.
func open(rank int, conns []ipc.Conn, options *Options) (*Comm, error) {
	n := len(conns)
	if rank < 0 || rank >= n || n > MaxRanks {
		return nil, fmt.Errorf("%w: rank %d of %d, expected at most %d ranks", protocol.ErrBadCall, rank, n, MaxRanks)
	}
	o, err := options.withDefaults(n)
	if err != nil {
		return nil, err
	}
	c := new(Comm)
	c.rank, c.n, c.timeout, c.log = rank, n, o.Timeout, o.Logger.With("rank", rank)
	c.conns, c.peers = conns, make([]peer, n)
	c.ctx, c.call = context.Background(), &protocol.Call{}
	c.inLine, c.flat, c.chunk, c.staged = inLineOf(n), o.Flat, o.Chunk, o.Staged
	c.spread = defaultSpread(n, o.Flat, o.Chunk)
	c.spins, c.held, c.work = maxSpins, [2]uint64{0, 1}, newWork(n)
	if c.fold, err = kernel.NewFolder(kernel.Best(), o.Fold, o.Order, n); err != nil {
		return nil, err
	}
	for p, conn := range conns {
		if (conn == nil) != (p == rank) {
			return nil, fmt.Errorf("%w: conn %d of rank %d, expected one for each other rank", protocol.ErrBadCall, p, rank)
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
	if c.self, err = attach(c.seg.Bytes(), s, rank); err != nil {
		return c, err
	}
	c.peers[rank].page = c.self
	c.waiter = ring.NewWaiter(c.self.bell, &ring.WaiterOptions{Park: parkTime})
	c.ready, c.stop = c.here, c.look
	if c.cores.mine = noCore; !c.threads {
		c.cores = newCores(n, c.waiter.Pauses())
	}
	c.tellCore()
	return c, c.memory.open(&c.ranks)
}

// release unmaps everything.
func (c *Comm) release() {
	c.ranks.release()
	c.memory.close()
}

// greeting returns what rank from says first to rank to.
func (c *Comm) greeting(from, to int) protocol.Greeting {
	staged := 0
	if c.staged {
		staged = 1
	}
	options := protocol.HashCounts(slices.Concat([]int{c.flat, c.chunk, staged}, c.fold.Groups, c.fold.Order))
	return protocol.Greeting{Version: pageVersion, Rank: from, To: to, Ranks: c.n, Options: options, Page: uint64(c.seg.Size())}
}

// greet exchanges pages with every rank. Options.Timeout, which may be short, does not
// bound it below DefaultTimeout: ranks join when they are ready.
func (c *Comm) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.timeout, DefaultTimeout))
	defer cancel()
	// the first; the other ranks are greeted, so that they find the missing rank
	var lost error
	for p, conn := range c.conns {
		if p == c.rank {
			continue
		}
		b, err := conn.Reserve(ctx, kindHello, protocol.GreetingBytes)
		if err == nil {
			c.greeting(c.rank, p).Append(b[:0])
			err = conn.Commit(c.seg.File())
		}
		if err != nil && lost == nil {
			lost = &protocol.PeerError{Rank: p, Err: fmt.Errorf("%w: greeting: %w", lostOrLate(err), err)}
		}
	}
	if lost != nil {
		return lost
	}
	for p, conn := range c.conns {
		if p == c.rank {
			continue
		}
		m, err := conn.Recv(ctx)
		if err != nil {
			return &protocol.PeerError{Rank: p, Err: fmt.Errorf("%w: waiting for its greeting: %w", lostOrLate(err), err)}
		}
		err = c.greeted(p, m)
		conn.Release()
		if err != nil {
			return &protocol.PeerError{Rank: p, Err: err}
		}
	}
	if c.n == 2 {
		c.pair = sharePages([2]*page{c.peers[0].page, c.peers[1].page}, c.rank)
	}
	return nil
}

// greeted checks the greeting of rank p and maps its page.
func (c *Comm) greeted(p int, m ipc.Message) error {
	if m.Kind != kindHello || len(m.Files) != 1 {
		ipc.CloseFiles(m.Files)
		return fmt.Errorf("%w: %w: greeting of kind %#x with %d files, expected %#x and 1",
			protocol.ErrPeerLost, ipc.ErrCorrupt, m.Kind, len(m.Files), kindHello)
	}
	if err := c.greeting(p, c.rank).Check(m.Body, "Flat, Chunk, Staged, Fold and Order"); err != nil {
		ipc.CloseFiles(m.Files)
		return err
	}
	s, err := mapFile(m.Files[0], uint64(p), c.seg.Size(), &shm.Options{Sealed: true, Prefault: true})
	if err != nil {
		return fmt.Errorf("%w: its page: %w", protocol.ErrPeerLost, err)
	}
	c.peers[p].seg = s
	if c.peers[p].page, err = attach(s.Bytes(), c.self.shape, p); err != nil {
		return fmt.Errorf("%w: its page: %w", protocol.ErrPeerLost, err)
	}
	return nil
}

// Stats returns the counters so far. It waits for a call that is under way.
func (c *Comm) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Abort kills the comm: the call under way and all later ones fail, with
// protocol.ErrAborted here and on the other ranks, where the error names this rank and
// has err's text.
func (c *Comm) Abort(err error) {
	c.kill(&protocol.PeerError{Rank: c.rank, Err: fmt.Errorf("%w: %w", protocol.ErrAborted, err)})
}

// Alloc returns n bytes of zeroed registered memory, aligned to a cache line: calls whose
// buffers lie in such memory on all ranks copy nothing. It is the caller's until Free or
// Close. After a call that failed, another rank may still store into that call's buffers.
// Any goroutine may call it at any time, and ranks need not do so alike.
func (c *Comm) Alloc(n int) ([]byte, error) { return c.memory.alloc(n) }

// Free gives back what Alloc returned. No call may be using it. After a call has returned
// here, no other rank touches its buffers any more, unless the call failed.
func (c *Comm) Free(b []byte) error { return c.memory.free(b) }

// Show has the others map a segment of the caller's for reading: from then on calls with
// buffers in it copy nothing through slots, and only its owner stores into it. The others
// can read all of it. Showing a segment again does nothing. The caller keeps it mapped
// until the comm is closed. It must be a Memfd, which cannot be shrunk under its readers;
// else the error is protocol.ErrBadCall. Any goroutine may call it at any time, and ranks
// need not do so alike.
func (c *Comm) Show(s *shm.Segment) error { return c.memory.show(s) }

// Close tells the others that this rank leaves, which is no error for ranks that need
// nothing from it any more, and closes the conns. A call under way fails. Memory of Alloc
// is gone. Further calls do nothing.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	closed := fmt.Errorf("%w: the comm is closed", protocol.ErrAborted)
	c.end(&protocol.PeerError{Rank: c.rank, Err: closed}, protocol.Notice{Reason: protocol.Left, Rank: c.rank})
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
