package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// engine is a tensor.Engine on a space. Programs are handed to the device in the caller's
// goroutine, during Submit.
type engine struct {
	dev   Device
	space Space
	owned bool // dev is closed with the engine

	// stop ends the programs of the Submit under way; closing says that no other may
	// begin. Close sets closing before stop, and Submit clears stop before it looks at
	// closing: a program that Close does not stop does not begin.
	stop, closing atomic.Bool

	mu     sync.Mutex
	closed bool
	made   uint64 // blocks for uploads; they begin in different sets of a cache
}

// NewEngine returns an engine for one session on d, which stays open when the engine is
// closed.
func NewEngine(d Device) tensor.Engine { return &engine{dev: d, space: d.Open()} }

// NewOwner returns an engine for one session on d that owns d: closing the engine closes
// the device.
func NewOwner(d Device) tensor.Engine { return &engine{dev: d, space: d.Open(), owned: true} }

// Of returns the device under an engine of this package, and nil for any other engine.
func Of(e tensor.Engine) Device {
	if e, ok := e.(*engine); ok {
		return e.dev
	}
	return nil
}

// Name returns the device's name.
func (e *engine) Name() string { return e.dev.Info().Name }

// MaxBytes implements tensor.Bounded.
func (e *engine) MaxBytes() uint64 { return e.dev.Info().Bytes }

// Alloc implements tensor.Engine.
func (e *engine) Alloc(n int) (tensor.Buffer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, tensor.ErrClosed
	}
	if n == 0 {
		return nil, nil
	}
	e.made++
	b, err := Alloc(e.dev.Arena(), n, e.made)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Alloc returns n > 0 bytes of a, which begin at another set of a cache than those of
// other numbers made. Its errors are those of tensor.Engine.
func Alloc(a *shm.Arena, n int, made uint64) (*shm.Block, error) {
	b, err := a.AllocShifted(n, made)
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, shm.ErrClosed):
		return nil, fmt.Errorf("%w: %w", tensor.ErrClosed, err)
	}
	return nil, fmt.Errorf("%w: %d bytes: %w", tensor.ErrNoSpace, n, err)
}

// Submit implements tensor.Engine.
func (e *engine) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop.Store(false)
	if e.closing.Load() {
		return nil, tensor.ErrClosed
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { e.stop.Store(true) })()
	}
	got, err := e.batch(ctx, b)
	if errors.Is(err, tensor.ErrStopped) {
		err = fmt.Errorf("%w: %w", cmp.Or(ctx.Err(), tensor.ErrClosed), err)
	}
	for _, id := range b.Frees {
		e.space.Free(id)
	}
	return got, err
}

// batch imports the uploads, runs the program, waits if it is asked to, and fetches. An
// error about the program is a *Failure, with those of earlier programs.
func (e *engine) batch(ctx context.Context, b *tensor.Batch) (got []tensor.Fetched, err error) {
	if err := ctx.Err(); err != nil {
		e.undo(b, false)
		return nil, err
	}
	ran := false
	if err = e.upload(b.Uploads); err == nil && b.Program != nil {
		ran, err = e.run(b)
	}
	switch {
	case err != nil:
	case len(b.Fetch) > 0:
		got, err = e.fetch(b)
	case b.Sync:
		err = e.space.Sync()
	}
	if err == nil {
		return got, nil
	}
	_, told := err.(*Failure) // by the device, of a program
	failed := asFailure(err, b)
	if ran && !told && errors.Is(err, tensor.ErrUnknown) { // of the value that is fetched
		failed.Rest = true
	}
	if first := e.space.Sync(); first != nil { // an earlier program explains this error
		failed = asFailure(first, b).Join(failed)
	}
	if whole(failed, b.Base) {
		e.undo(b, ran)
	}
	return nil, failed
}

// run runs the program of b. It reports whether the program's results exist.
func (e *engine) run(b *tensor.Batch) (ran bool, err error) {
	p, err := e.dev.Compile(b.Hash, b.Encoded)
	if err != nil {
		return false, err
	}
	e.space.FreeUnread(b.Frees, b.Inputs)
	err = e.space.Run(p, b.Base, b.Inputs, b.Scalars, &e.stop)
	return err == nil, err
}

// asFailure returns err as a failure, of the batch b if it does not say of which.
func asFailure(err error, b *tensor.Batch) *Failure {
	if f, ok := err.(*Failure); ok {
		return f
	}
	return &Failure{Base: b.Base, Err: err}
}

// whole reports whether by f the program whose Base is base has no results.
func whole(f *Failure, base uint64) bool {
	return f.Base == base && !f.Rest || slices.ContainsFunc(f.More, func(x *Failure) bool { return whole(x, base) })
}

// upload imports all uploads, and returns the error of the first that could not be: the
// others exist all the same.
func (e *engine) upload(uploads []tensor.Upload) (failed error) {
	for _, u := range uploads {
		var block *shm.Block
		if u.Buf != nil {
			block = u.Buf.(*shm.Block)
			block.Retain()
		}
		if err := e.space.Import(u.ID, u.DType, u.Shape, block, u.Own); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// fetch returns the values that b asks for.
func (e *engine) fetch(b *tensor.Batch) ([]tensor.Fetched, error) {
	blocks, err := e.space.Host(b.Fetch...)
	if err != nil {
		return nil, err
	}
	out := make([]tensor.Fetched, len(blocks))
	for i, block := range blocks {
		v, _ := e.space.Lookup(b.Fetch[i])
		out[i] = tensor.Fetched{DType: v.DType, Shape: v.Shape, Release: func() {}}
		if block != nil {
			out[i].Bytes, out[i].Release = block.Bytes()[:v.Bytes()], block.Release
		}
	}
	return out, nil
}

// undo frees the results that a failed batch has left, and the values that its program
// would have freed.
func (e *engine) undo(b *tensor.Batch, ran bool) {
	if b.Program == nil {
		return
	}
	for i, in := range b.Program.Instrs {
		if in.Keep && ran {
			e.space.Free(b.Base + uint64(i))
		}
	}
	for i, x := range b.Program.Externals {
		if x.Donated && i < len(b.Inputs) {
			e.space.Free(b.Inputs[i])
		}
	}
}

// Close implements tensor.Engine. It stops the program that runs.
func (e *engine) Close() error {
	e.closing.Store(true)
	e.stop.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.space.Close()
	if e.owned {
		return e.dev.Close()
	}
	return nil
}
