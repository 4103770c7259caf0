package client

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// outbox is the Run that is sent next, and what goes with it.
type outbox struct {
	team     *team
	arena    *shm.Arena // of the blocks that uploads lie in
	programs mirror
	history  wire.History
	run      wire.Run
	message  []byte      // the message that is sent, as bytes
	frees    []uint64    // ids to free with the next Run
	forget   []wire.Hash // programs to forget with the next Run
	pushing  bool        // uploads are to be pushed before the next message
	unsent   []message   // goes before the next message
}

// begin empties o.run for the next one.
func (o *outbox) begin(base uint64) {
	run := &o.run
	*run = wire.Run{
		Base: base, Scalars: run.Scalars[:0], Inputs: run.Inputs[:0], Frees: run.Frees[:0], Fetch: run.Fetch[:0],
		Uploads: run.Uploads[:0], Returns: run.Returns[:0],
	}
}

// size returns the most bytes that o.run can have with uploads and frees added.
func (o *outbox) size(uploads []tensor.Upload) int {
	const (
		// fields, and counts of lists
		fixed  = 256
		scalar = 9                                       // with its bit
		id     = 13                                      // with its token
		upload = 30 + 10*wire.MaxRank + wire.HandleBytes // with its dims
		// what sendRun adds
		rest = maxReturns*wire.HandleBytes + maxForget*wire.HashBytes
	)
	ids := len(o.run.Inputs) + len(o.run.Fetch) + min(len(o.frees), maxFrees)
	return fixed + scalar*len(o.run.Scalars) + id*ids + upload*len(uploads) + rest
}

// addFrees moves ids to be freed into o.run. They stay in o.frees until it is sent.
func (o *outbox) addFrees() {
	o.run.Frees = append(o.run.Frees, o.frees[:min(len(o.frees), maxFrees)]...)
}

// addUploads puts uploads into o.run, and has the arena keep their blocks for the worker.
// On an error there are none of them.
func (o *outbox) addUploads(uploads []tensor.Upload) error {
	for i := range uploads {
		if err := o.addUpload(&uploads[i]); err != nil {
			o.dropUploads()
			return err
		}
	}
	return nil
}

func (o *outbox) addUpload(u *tensor.Upload) error {
	n := len(o.run.Uploads)
	o.run.Uploads = slices.Grow(o.run.Uploads, 1)[:n+1] // with the dims of an older one
	w := &o.run.Uploads[n]
	*w = wire.Upload{ID: u.ID, Own: u.Own, Value: wire.Value{DType: uint8(u.DType), Dims: append(w.Dims[:0], u.Shape...)}}
	w.Stage, w.Layout = o.team.lies(u)
	if u.Buf == nil || len(u.Buf.Bytes()) == 0 {
		w.Inline = []byte{}
		return nil
	}
	b, ours := u.Buf.(*shm.Block)
	if !ours || o.team.apart && o.uploaded(b.Handle()) || o.lease(b) != nil {
		// The worker cannot see this memory, or would receive it twice under one name.
		var err error
		if b, err = o.arena.Alloc(len(u.Buf.Bytes())); err != nil {
			w.Inline = []byte{} // nothing to drop
			return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
		}
		copy(b.Bytes(), u.Buf.Bytes())
		err = o.lease(b)
		b.Release()
		if err != nil {
			w.Inline = []byte{}
			return err
		}
	}
	w.Handle = b.Handle()
	return nil
}

// uploaded says that o.run has an upload of this block already.
func (o *outbox) uploaded(h wire.Handle) bool {
	before := o.run.Uploads[:len(o.run.Uploads)-1]
	return slices.ContainsFunc(before, func(u wire.Upload) bool { return u.Inline == nil && u.Handle == h })
}

// lease leases a block of the arena to every worker.
func (o *outbox) lease(b *shm.Block) error {
	for range o.team.workers {
		if err := o.arena.Lease(b, self); err != nil {
			return err // of the first call: the block is not of this arena
		}
	}
	return nil
}

// dropUploads takes back the blocks of o.run, which is not sent.
func (o *outbox) dropUploads() {
	for i := range o.run.Uploads {
		for range o.team.workers {
			if u := &o.run.Uploads[i]; u.Inline == nil {
				_ = o.arena.Unlease(u.Handle, self)
			}
		}
	}
	o.run.Uploads = o.run.Uploads[:0]
}
