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

	// keptThreads is how many of the threads that this process may have a closer leaves
	// to others. The Go runtime ends a process that can't start a thread.
	keptThreads = 16

	// roomEvery is how often a closer looks how many threads are left. It takes longer
	// than most closes.
	roomEvery = 100 * time.Millisecond
)

// closer closes files on goroutines of its own. The peer decides how long the close of a
// descriptor that it sent takes: a file of a remote file system is flushed, a socket
// lingers, and a unix socket closes what is queued in it. The goroutines drain sockets
// first, so that most of their closes return at once. Any goroutine may call close.
type closer struct {
	threads func() int // that are left

	mu      sync.Mutex
	running int
	queue   []closing
	looked  time.Time // when threads was called
	most    int       // of running, from then on
}

// closing is a file to be closed. If it was passed on, another process still uses it, and
// what is queued in it stays.
type closing struct {
	file   io.Closer
	passed bool
}

// The closes of files in memory never wait without end. They have a closer of their own,
// so that they don't queue behind others, which can.
var (
	closeMemory = closer{threads: freeThreads}
	closeOther  = closer{threads: freeThreads}
)

func freeThreads() int { return limits.Machine{}.Threads(keptThreads + maxClosing).Free }

// CloseFiles closes descriptors that came with a message and that this process doesn't
// use. It returns at once: another goroutine closes them soon. It also empties the queues
// of sockets among them, so no other process may still use these: see ClosePassed.
func CloseFiles(files []*os.File) { closeFiles(files, false) }

// ClosePassed is CloseFiles for descriptors that were passed on to another process. It
// leaves the queues of sockets as they are.
func ClosePassed(files []*os.File) { closeFiles(files, true) }

func closeFiles(files []*os.File, passed bool) {
	for _, f := range files {
		c := &closeOther
		if isMemory(f) {
			c = &closeMemory
		}
		c.close(closing{f, passed})
	}
}

// CloseSocket closes a socket soon, as CloseFiles does, and with it the descriptors that
// the peer sent and that were not received.
func CloseSocket(c io.Closer) { closeOther.close(closing{file: c}) }

// isMemory reports whether f is a file in memory. It asks for the seals, which the kernel
// answers without the file system. It is false for nil and for files that are closed
// already.
func isMemory(f *os.File) bool {
	return WithFD(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		return err
	}) == nil
}

func (c *closer) close(f closing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if c.running < fewClosing || c.running < c.room() {
		c.running++
		go c.work()
	}
}

// room returns how many goroutines there may be now. The caller holds mu.
func (c *closer) room() int {
	if now := time.Now(); now.Sub(c.looked) >= roomEvery {
		c.looked = now
		c.most = c.running + min(c.threads()-keptThreads, maxClosing)
	}
	return min(c.most, maxClosing)
}

// next takes the oldest file out of the queue. If there is none, it returns false and
// counts the goroutine as ended.
func (c *closer) next() (closing, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		c.running--
		return closing{}, false
	}
	f := c.queue[0]
	c.queue[0] = closing{}
	c.queue = c.queue[1:]
	return f, true
}

func (c *closer) work() {
	var d drain
	for f, ok := c.next(); ok; f, ok = c.next() {
		if s, is := f.file.(syscall.Conn); is {
			_ = WithFD(s, func(fd int) error {
				if f.passed {
					forgoLinger(fd)
				} else {
					d.left = maxDrained
					d.socket(fd)
				}
				return nil
			})
		}
		_ = f.file.Close()
	}
}
