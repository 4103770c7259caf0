package shm

import "sync/atomic"

// Block is a piece of a segment, counted by references. One that Arena.Alloc
// returned is our own memory; one that Table.Open returned is a peer's, mapped
// here.
//
// A holder of a reference may call any method, concurrently with others. Nothing orders
// their use of the bytes; sending the handle through a ring does. The last Release frees
// the memory, and the Block with it: neither may be touched afterwards, because both may
// belong to another allocation.
type Block struct {
	mem      []byte
	handle   Handle
	refs     atomic.Int32
	slot     uint32 // its place in span, when the arena's
	readOnly bool
	span     *span // nil when a table's
	home     home
}

// home is where a block goes with its last reference.
type home interface {
	reclaim(b *Block)
}

// Bytes is the memory, with whatever was there before. It is 64-byte aligned when
// the block came from Arena.Alloc, page aligned above 32 KiB.
func (b *Block) Bytes() []byte { return b.mem }

// Len is the number of bytes.
func (b *Block) Len() int { return len(b.mem) }

// Handle names the block to other processes.
func (b *Block) Handle() Handle { return b.handle }

// ReadOnly reports whether storing to Bytes would end the process, as it does in
// a peer's memory unless the table was asked for more.
func (b *Block) ReadOnly() bool { return b.readOnly }

// Refs returns the number of references, leases among them. A caller that sees 1 and
// holds that one has the block alone.
func (b *Block) Refs() int { return int(b.refs.Load()) }

// Retain adds a reference. The caller must hold one.
func (b *Block) Retain() {
	if b.refs.Add(1) <= 1 {
		panic("shm: Retain of a released block")
	}
}

// Release drops a reference, the last one the block. Dropping more than there are
// is a bug of the caller and panics, for as long as the memory has not been
// handed out again; in a checked arena always.
func (b *Block) Release() {
	n := b.refs.Add(-1)
	if n > 0 {
		return
	}
	if n < 0 {
		panic("shm: Release of a released block")
	}
	b.home.reclaim(b)
}

// tryRetain adds a reference unless there is none.
func (b *Block) tryRetain() bool {
	for {
		n := b.refs.Load()
		if n <= 0 {
			return false
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}
