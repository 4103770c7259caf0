package tcp

import (
	"os"

	"github.com/ringside-go/ringside/ring"
	"github.com/ringside-go/ringside/shm"
)

// memory is that of a conn's two queues. It is mapped, and not of Go's heap, which keeps
// memory after its last use: until the next collection, and idle pages beyond that.
//
// The gate owns the mapping. These are within it, and touch the queues:
//
//   - the goroutine that sends, from TryReserve to Commit or Abort;
//   - the goroutine that receives, from TryRecv to Release;
//   - the writer, while it gives frames to the kernel;
//   - netpoll's goroutine, while it takes what has arrived.
//
// finish closes the gate, and the last that leaves unmaps. If a caller keeps a message
// for ever, the memory goes when the conn can no longer be reached.
type memory struct {
	gate
	seg *shm.Segment
}

// open maps the memory and returns that of either queue. Messages in flight take at most
// ringBytes in out, padding included; in may lay them out otherwise and need as much
// again.
func (m *memory) open(ringBytes int) (out, in []byte, err error) {
	page := os.Getpagesize()
	first, second := ring.Size(ringBytes), ring.Size(2*ringBytes)
	at := (first + page - 1) / page * page
	if m.seg, err = shm.Create(int64(at+second), &shm.Options{Backing: shm.Private}); err != nil {
		return nil, nil, err
	}
	m.end = func() { _ = m.seg.Close() }
	mem := m.seg.Bytes()
	return mem[:first:first], mem[at : at+second : at+second], nil
}
