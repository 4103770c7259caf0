package worker

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// clientMemory is where the uploads of a session come from: mappedMemory for a client
// that shares memory with the worker, a dataConn for one of another host.
type clientMemory interface {
	// open returns the bytes of an upload that has a handle, n bytes of it, in a block
	// with a reference for the caller; nil for no bytes. The caller checks the block's
	// length.
	open(u *wire.Upload, n int) (*shm.Block, error)

	// mapped reports whether the worker maps the client's memory and the client the
	// worker's. If not, the client sends the bytes, and of an upload whose layout it
	// knows only the worker's part.
	mapped() bool

	// hear handles a Link message.
	hear(src []byte) error

	// wait returns when the memory can be used, or an error if it cannot.
	wait(ctx context.Context) error

	// close ends the connection, if there is one, and frees the uploads that no value
	// has.
	close()
}

// alignment is the alignment of an arena's blocks, which kernels rely on.
const alignment = 64

// mappedMemory is the memory of a client of this host: segments that the worker maps for
// reading. The table reports when the last value in a handle's memory is freed.
type mappedMemory struct {
	table   *shm.Table
	session uint64
	imports *atomic.Uint64 // counts the uploads that are read in place
}

func (m *mappedMemory) open(u *wire.Upload, _ int) (*shm.Block, error) {
	b, err := m.table.Open(m.session, u.Handle)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if u.Handle.Off%alignment != 0 {
		b.Release()
		return nil, fmt.Errorf("%w: %v is not %d-byte aligned", errProtocol, u.Handle, alignment)
	}
	m.imports.Add(1)
	return b, nil
}

func (m *mappedMemory) mapped() bool { return true }

func (m *mappedMemory) hear([]byte) error {
	return fmt.Errorf("%w: Link in a session that shares memory", errProtocol)
}

func (m *mappedMemory) wait(context.Context) error { return nil }

// close does nothing: the session's segments go with its values.
func (m *mappedMemory) close() {}
