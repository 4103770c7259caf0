package worker

import (
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

const (
	// maxBacklog, maxBacklogBytes and maxBacklogFiles bound the messages of one session
	// that wait here, and their descriptors, before the dispatcher is told to hold it
	// back. Those that the dispatcher had sent already come on top: at most its queue to
	// the worker. They are more than a client that waits for answers sends ahead.
	maxBacklog      = 64
	maxBacklogBytes = 256 << 10
	maxBacklogFiles = 8
)

// backlog is the messages of one session that the dispatcher forwarded and that wait to
// be handled.
type backlog struct {
	waiting []waiting     // oldest first
	bytes   int           // of these
	files   int           // of these
	stopped bool          // the dispatcher was told to hold the session back
	used    time.Duration // of the worker's time, see scheduler
}

// waiting is a message that waits.
type waiting struct {
	number uint64 // of the worker's messages
	ipc.Message
}

// push adds a message after the others.
func (b *backlog) push(q waiting) {
	b.waiting = append(b.waiting, q)
	b.bytes += len(q.Body)
	b.files += len(q.Files)
}

// putBack puts a message that is not done before the others. Its files were taken or
// closed.
func (b *backlog) putBack(q waiting) {
	q.Files = nil
	b.waiting = slices.Insert(b.waiting, 0, q)
	b.bytes += len(q.Body)
}

// pop takes the oldest message.
func (b *backlog) pop() waiting {
	q := b.waiting[0]
	b.waiting[0] = waiting{}
	b.waiting = b.waiting[1:]
	b.files -= len(q.Files)
	if b.bytes -= len(q.Body); len(b.waiting) == 0 {
		b.waiting = nil
	}
	return q
}

// long reports whether the dispatcher is to hold the session back.
func (b *backlog) long() bool {
	return len(b.waiting) >= maxBacklog || b.bytes >= maxBacklogBytes || b.files >= maxBacklogFiles
}

// short reports whether a session that was held back goes on.
func (b *backlog) short() bool {
	return len(b.waiting) <= maxBacklog/2 && b.bytes <= maxBacklogBytes/2 && b.files <= maxBacklogFiles/2
}

// clear drops all messages.
func (b *backlog) clear() {
	for _, q := range b.waiting {
		ipc.CloseFiles(q.Files)
	}
	b.waiting, b.bytes, b.files = nil, 0, 0
}
