package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// filesShift is where the number of files begins in a record's tag.
	filesShift = 24

	// maxPendingFiles bounds the batches of descriptors that arrived before their
	// messages were received: a peer has no more on their way.
	maxPendingFiles = ipc.MaxFilesAhead

	// fileSendTimeout bounds how long a message's descriptors wait for a peer that does
	// not read them. The peer has a goroutine for nothing but reading them, so only a
	// stopped peer makes us wait, and filesRoom prevents that.
	fileSendTimeout = 5 * time.Second

	// lingerTimeout is how long a closed conn waits for the other end to close as well,
	// so that the later of the two can free the memory at once.
	lingerTimeout = time.Second
)

// stateEnded is the bit of a conn's state that says that the socket is at its end, so the
// peer relies on nothing in the memory any more. It is always set together with
// ipc.StateGone.
const stateEnded = ipc.StateOther

// conn is one end. Four goroutines may be in it: one sends (out, reserved, roomNeeded,
// filesAhead), one receives (in, held, filesNeeded), watch reads the socket, and any may
// close it.
type conn struct {
	state    ipc.State
	sock     *net.UnixConn
	seg      *shm.Segment
	bells    bells
	warnings *ipc.Warnings
	steps    *steps
	limit    int // largest body

	data, room *Waiter // that we sleep on: for messages, for room in the queue
	own        bool    // data and room are this conn's alone

	out        *ring.Producer
	reserved   int // length of the open reservation's body, -1 when none
	kind       uint32
	roomNeeded int
	// where in out the messages with files end that the peer may not have released
	filesAhead []uint64
	roomReady  func() bool
	pages      []byte // those of out's data that hold nothing else
	looked     uint64 // end of out at the last Trim
	trimmed    uint64 // end of out when Trim last gave pages back
	sent       counters

	in          *ring.Consumer
	held        bool // a message is with the caller
	filesNeeded bool // the next message's files have not arrived yet
	dataReady   func() bool
	recv        counters

	filesWaiting atomic.Int32 // length of files
	filesMu      sync.Mutex
	files        [][]*os.File // one batch a message, oldest first
	filesHeld    int          // descriptors in files
	filesClosed  bool         // they are not taken any more
}

// counters are those of one direction, written by the goroutine that works there.
type counters struct{ messages, bytes, files, full ring.Counter }

// newConn makes the end that sends on out and receives on in, two pieces of seg. The conn
// owns sock, seg and bells from then on.
func newConn(peer ipc.Peer, sock *net.UnixConn, seg *shm.Segment, out, in []byte, bells bells, w waiters, warnings *ipc.Warnings, st *steps) (*conn, error) {
	c := &conn{
		state: ipc.State{Peer: peer}, sock: sock, seg: seg, bells: bells, warnings: warnings, steps: st,
		data: w.data, room: w.room, own: w.own, reserved: -1, pages: dataPages(seg.Bytes(), out),
	}
	var err error
	if c.out, err = ring.NewProducer(out); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	if c.in, err = ring.NewConsumer(in, &ring.ConsumerOptions{Space: bells.room}); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	c.limit = ipc.MessageLimit(len(out) - ring.HeaderSize)
	c.roomReady = func() bool {
		if c.state.Load() != 0 {
			return true
		}
		// that, and not room, is what the peer was asked for
		if len(c.filesAhead) == ipc.MaxFilesAhead {
			return c.out.Passed(c.filesAhead[0])
		}
		return c.out.CanReserve(c.roomNeeded)
	}
	c.dataReady = func() bool {
		return c.state.Load() != 0 || c.in.Ready() && (!c.filesNeeded || c.filesWaiting.Load() != 0)
	}
	// The two mappings go when the conn can no longer be reached, and not in Close: the
	// goroutines that send and receive may be reading them at that moment, and asking
	// them first would cost every message two locked instructions.
	runtime.AddCleanup(c, func(r [2]*shm.Segment) {
		r[0].Close()
		r[1].Close()
	}, [2]*shm.Segment{seg, bells.seg})
	go c.watch()
	return c, nil
}

// dataPages returns the whole pages of a ring's data. The ring is one of two halves of
// mem.
func dataPages(mem, half []byte) []byte {
	at := 0
	if &half[0] != &mem[0] {
		at = len(half)
	}
	page := os.Getpagesize()
	first, end := (at+ring.HeaderSize+page-1)/page*page, (at+len(half))/page*page
	return mem[first:max(first, end)]
}

func (c *conn) Peer() ipc.Peer { return c.state.Peer }

func (c *conn) Features() ipc.Features { return ipc.Features{Files: true} }

func (c *conn) Stats() ipc.Stats {
	return ipc.Stats{
		SentMessages: c.sent.messages.Load(), SentBytes: c.sent.bytes.Load(), SentFiles: c.sent.files.Load(),
		RecvMessages: c.recv.messages.Load(), RecvBytes: c.recv.bytes.Load(), RecvFiles: c.recv.files.Load(),
		Full:  c.sent.full.Load(),
		Wakes: c.bells.data.Wakes() + c.bells.room.Wakes(),
	}
}

func (c *conn) Err() error { return c.state.Err() }

// set adds a bit to the state and wakes every wait on this conn, also when the peer died
// in the middle of waking it. It returns the state before.
func (c *conn) set(bit uint32) uint32 {
	before := c.state.Or(bit)
	c.data.rouse()
	c.room.rouse()
	return before
}

// corrupt ends the conn because of what the peer did.
func (c *conn) corrupt(err error) error {
	err = c.state.Corrupt(err, c.warnings)
	if c.set(ipc.StateCorrupt)&ipc.StateCorrupt == 0 {
		c.dropFiles()
		c.hangUp()
	}
	return err
}

// hangUp has the peer and our own watch see the end of the socket.
func (c *conn) hangUp() {
	_ = c.sock.CloseWrite()
	_ = c.sock.SetReadDeadline(time.Now().Add(lingerTimeout))
}

func (c *conn) Close() error {
	before := c.set(ipc.StateClosed)
	if before&ipc.StateClosed != 0 {
		return nil
	}
	c.steps.took("close: said")
	c.dropFiles()
	if c.own {
		c.data.unwatch()
		c.room.unwatch()
	}
	if before&stateEnded != 0 {
		c.release()
	} else {
		c.hangUp()
		c.steps.took("close: hung up")
	}
	return nil
}

// release frees everything. In each process the later of two events calls it: its own
// Close, and the end of the socket by the peer's close or death. The socket must stay
// open until then: its end tells the peer that we rely on the memory no more, and the
// peer may then empty it, so that all words read as zero. Our mapping stays until no
// goroutine can read it, but need not keep its pages.
func (c *conn) release() {
	_ = unix.Madvise(c.seg.Bytes(), unix.MADV_REMOVE)
	runtime.KeepAlive(c)
	c.steps.took("close: emptied")
	ipc.CloseSocket(c.sock)
}

// watch reads the socket until its end: the descriptors of messages, and then the news
// that the peer is gone.
func (c *conn) watch() {
	var token [8]byte
	oob := make([]byte, oobSize())
	var err error
	for resets := 0; err == nil; {
		var files []*os.File
		_, files, err = recvFiles(c.sock, token[:], oob)
		switch {
		case err == nil:
			err = c.queue(files)
		case errors.Is(err, errShort):
			c.warnings.Warn("descriptors", "descriptors of a peer wait", "peer", c.state.Peer.Name, "pid", c.state.Peer.PID, "err", err)
			relieve()
			<-time.After(shortPause)
			err = nil
		case errors.Is(err, unix.ECONNRESET) && resets == 0:
			// It died with descriptors of ours unread. The kernel says so once, ahead of
			// what it had sent, and then EOF.
			resets, err = 1, nil
		}
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET)
	switch {
	case errors.Is(err, ipc.ErrCorrupt):
		_ = c.corrupt(err)
	case ended:
		if c.set(ipc.StateGone|stateEnded)&ipc.StateClosed != 0 {
			c.release()
		}
		return
	// the peer has not closed in the time that Close gave it, or the socket failed
	default:
		c.set(ipc.StateGone)
	}
	ipc.CloseSocket(c.sock)
}

// queue keeps a message's files until the message is received.
func (c *conn) queue(files []*os.File) error {
	if len(files) == 0 {
		return fmt.Errorf("%w: datagram without descriptors", ipc.ErrCorrupt)
	}
	left := limits.OpenFiles()
	few := slices.ContainsFunc(files, func(f *os.File) bool { return left.Scarce(ipc.Number(f)) })
	if err := c.keep(files); err != nil {
		ipc.CloseFiles(files)
		return err
	}
	c.data.Wake()
	if few {
		relieve()
	}
	return nil
}

// keep adds a message's files to those that wait. The files stay the caller's on error.
func (c *conn) keep(files []*os.File) error {
	c.filesMu.Lock()
	defer c.filesMu.Unlock()
	if c.filesClosed {
		ipc.CloseFiles(files)
		return nil
	}
	if len(c.files) >= maxPendingFiles {
		return fmt.Errorf("%w: descriptors for more than %d messages", ipc.ErrCorrupt, maxPendingFiles)
	}
	c.files = append(c.files, files)
	c.hold(len(files))
	return nil
}

// takeFiles returns the oldest message's files, false when they have not arrived.
func (c *conn) takeFiles() ([]*os.File, bool) {
	c.filesMu.Lock()
	defer c.filesMu.Unlock()
	if len(c.files) == 0 {
		return nil, false
	}
	batch := c.files[0]
	c.files[0] = nil
	c.files = c.files[1:]
	c.hold(-len(batch))
	return batch, true
}

// dropFiles closes the files that wait, and those that still come.
func (c *conn) dropFiles() {
	c.filesMu.Lock()
	defer c.filesMu.Unlock()
	c.filesClosed = true
	for _, batch := range c.files {
		ipc.CloseFiles(batch)
	}
	c.files = nil
	c.hold(-c.filesHeld)
}
