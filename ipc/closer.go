package ipc

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// maxClosing bounds the goroutines of a closer: each holds a thread while a close
	// waits.
	maxClosing = 256

	// fewClosing is how many of them there may be in any case.
	fewClosing = 4

	// keptThreads are left of the threads that this process may have. Without one the
	// runtime ends the process.
	keptThreads = 16

	// roomEvery is how often a closer looks how many threads are left. It takes longer
	// than most closes.
	roomEvery = 100 * time.Millisecond
)

// closer closes on goroutines of its own. A close of a peer's descriptor can take as long
// as the peer likes: a file of a remote file system is flushed, a unix socket closes what
// is queued in it. A TCP socket that lingers is told not to. Any goroutine may call
// close.
type closer struct {
	threads func() int // that are left

	mu      sync.Mutex
	running int
	queue   []io.Closer
	looked  time.Time // when threads was called
	most    int       // of running, from then on
}

// Peers' memory is closed apart from everything else, which alone can wait without end.
var (
	closeMemory = closer{threads: limits.Machine{}.Threads}
	closeOther  = closer{threads: limits.Machine{}.Threads}
)

// CloseFiles closes the descriptors of a message that are not used. It never waits: they
// are closed soon, on another goroutine.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		if isMemory(f) {
			closeMemory.close(f)
		} else {
			closeOther.close(f)
		}
	}
}

// CloseSocket closes a socket soon, as CloseFiles does: descriptors that the peer sent
// and that were not received are closed with it.
func CloseSocket(c io.Closer) { closeOther.close(c) }

// isMemory reports whether f is a file in memory, by a question that no file system has
// to answer. It is false for nil and for files that are closed already.
func isMemory(f *os.File) bool {
	return WithFD(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		return err
	}) == nil
}

func (c *closer) close(f io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if c.running < fewClosing || c.running < c.room() {
		c.running++
		go c.work()
	}
}

// room returns how many goroutines there may be now. It is called with mu.
func (c *closer) room() int {
	if now := time.Now(); now.Sub(c.looked) >= roomEvery {
		c.looked = now
		c.most = c.running + min(c.threads()-keptThreads, maxClosing)
	}
	return min(c.most, maxClosing)
}

// next returns the oldest of the queue; nil if it is empty, and the goroutine ends.
func (c *closer) next() io.Closer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running--
		return nil
	}
	f := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	return f
}

func (c *closer) work() {
	for f := c.next(); f != nil; f = c.next() {
		forgoLinger(f)
		_ = f.Close()
	}
}

// forgoLinger has a socket that lingers be closed at once. The kernel sends what it has
// all the same.
func forgoLinger(f io.Closer) {
	s, ok := f.(syscall.Conn)
	if !ok {
		return
	}
	_ = WithFD(s, func(fd int) error {
		if l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err != nil || l.Onoff == 0 || l.Linger == 0 {
			return err // no socket, or one that closes at once
		}
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	})
}
