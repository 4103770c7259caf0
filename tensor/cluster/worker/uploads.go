package worker

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Handles of uploads that are not needed any more wait for the next answer, but no more
// than these.
const (
	maxReturned      = 256
	maxReturnedBytes = 8 << 20
)

// uploads finds the bytes of a session's uploads, and collects the handles of those that
// the worker needs no longer.
type uploads struct {
	memory clientMemory
	arena  *shm.Arena

	mu       sync.Mutex
	returned []wire.Handle // not yet reported to the client
	bytes    int           // of these
	some     atomic.Bool   // there are some: most batches need not lock
}

// uploadType returns an upload's dtype and shape.
func uploadType(u *wire.Upload) (tensor.DType, tensor.Shape, error) {
	d, shape := tensor.DType(u.DType), tensor.Shape(slices.Clone(u.Dims))
	if !d.Valid() {
		return d, nil, fmt.Errorf("%w: upload %d has dtype %d", errProtocol, u.ID, u.DType)
	}
	if err := shape.Check(); err != nil {
		return d, nil, fmt.Errorf("%w: upload %d: %w", errProtocol, u.ID, err)
	}
	return d, shape, nil
}

// open returns the n bytes of an upload in a block of host memory, with a reference for
// the caller; nil for no bytes. The block is ReadOnly if it is the client's memory.
func (x *uploads) open(u *wire.Upload, n int) (b *shm.Block, err error) {
	switch {
	case len(u.Inline) > 0:
		if b, err = x.arena.Alloc(len(u.Inline)); err != nil {
			return nil, fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		copy(b.Bytes(), u.Inline)
	case u.Inline == nil:
		b, err = x.memory.open(u, n)
		if !x.memory.mapped() && !ends(err) {
			x.giveBack(u.Handle)
		}
		if err != nil {
			return nil, fmt.Errorf("upload %d: %w", u.ID, err)
		}
	}
	have := 0
	if b != nil {
		have = b.Len()
	}
	if have != n {
		if b != nil {
			b.Release()
		}
		return nil, fmt.Errorf("%w: upload %d has %d bytes, expected %d", errProtocol, u.ID, have, n)
	}
	return b, nil
}

// giveBack notes that the worker needs the memory of an upload no longer. Any goroutine
// may call it.
func (x *uploads) giveBack(h wire.Handle) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.returned = append(x.returned, h)
	x.bytes += int(h.Len)
	x.some.Store(true)
}

// full reports whether so much is collected that the client is told without being asked.
func (x *uploads) full() bool {
	if !x.some.Load() {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.returned) >= maxReturned || x.bytes >= maxReturnedBytes
}

// take moves collected handles to an answer, as many as fit.
func (x *uploads) take(done *wire.Done) {
	if !x.some.Load() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n := min(len(x.returned), wire.MaxReturns/2)
	done.Returned = append(done.Returned, x.returned[:n]...)
	x.returned = x.returned[:copy(x.returned, x.returned[n:])]
	x.bytes = 0
	for _, h := range x.returned {
		x.bytes += int(h.Len)
	}
	x.some.Store(len(x.returned) > 0)
}

// owners finds the uploads of the session to which a handle belongs. Any goroutine may
// call its methods: a device frees values while the worker waits for it, and meanwhile
// another goroutine opens and closes sessions.
type owners struct {
	mu      sync.Mutex
	uploads map[uint64]*uploads // by session
}

// set says which uploads a session has; nil: it has ended.
func (o *owners) set(session uint64, x *uploads) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case x == nil:
		delete(o.uploads, session)
	case o.uploads == nil:
		o.uploads = map[uint64]*uploads{}
		fallthrough
	default:
		o.uploads[session] = x
	}
}

// giveBack notes that the worker needs the memory behind a session's handle no longer.
func (o *owners) giveBack(session uint64, h wire.Handle) {
	o.mu.Lock()
	x := o.uploads[session]
	o.mu.Unlock()
	if x != nil {
		x.giveBack(h)
	}
}
