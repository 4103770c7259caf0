package cpu

import (
	"context"
	"fmt"
	"sync"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
)

// engine is a Space as a tensor.Engine: programs run in the caller's goroutine, during Submit.
type engine struct {
	dev   *Device
	space *Space
	owned bool // the device goes with it

	mu     sync.Mutex
	closed bool
}

// NewEngine is an engine for one session on d, which stays open when it is closed.
func NewEngine(d *Device) tensor.Engine { return &engine{dev: d, space: d.Open()} }

// NewSession is a session in this process, on a device of its own.
func NewSession(o *Options, so *tensor.SessionOptions) (*tensor.Session, error) {
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	return tensor.NewSession(&engine{dev: d, space: d.Open(), owned: true}, so), nil
}

func (e *engine) Name() string { return e.dev.Name() }

// DeviceOf is the device under an engine of this package; nil for another's.
func DeviceOf(e tensor.Engine) *Device {
	if c, ok := e.(*engine); ok {
		return c.dev
	}
	return nil
}

func (e *engine) Alloc(n int) (tensor.Buffer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, tensor.ErrClosed
	}
	b, err := e.dev.alloc(n)
	if b == nil || err != nil {
		return nil, err
	}
	return b, nil
}

func (e *engine) Submit(ctx context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, tensor.ErrClosed
	}
	ran := false
	got, err := e.batch(ctx, b, &ran)
	if err != nil {
		e.undo(b, ran)
	}
	for _, id := range b.Frees {
		e.space.Free(id)
	}
	return got, err
}

// batch imports the uploads, runs the program and fetches. ran says whether the program's results exist.
func (e *engine) batch(ctx context.Context, b *tensor.Batch, ran *bool) ([]tensor.Fetched, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var failed error
	for _, u := range b.Uploads {
		var block *shm.Block
		if u.Buf != nil {
			block = u.Buf.(*shm.Block)
			block.Retain()
		}
		if err := e.space.Import(u.ID, u.DType, u.Shape, block); err != nil && failed == nil {
			failed = err // the others exist all the same
		}
	}
	if failed != nil {
		return nil, failed
	}
	if b.Program != nil {
		c, err := e.dev.Compile(b.Hash, b.Encoded)
		if err != nil {
			return nil, err
		}
		e.space.FreeUnread(b.Frees, b.Inputs)
		if err := e.space.Run(c, b.Base, b.Inputs, b.Scalars); err != nil {
			return nil, err
		}
		*ran = true
	}
	if len(b.Fetch) == 0 {
		return nil, nil
	}
	for _, id := range b.Fetch {
		if e.space.Lookup(id) == nil {
			return nil, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
		}
	}
	out := make([]tensor.Fetched, len(b.Fetch))
	for i, id := range b.Fetch {
		out[i] = fetched(e.space.Lookup(id))
	}
	return out, nil
}

// fetched is a value with a claim on its memory.
func fetched(v *Value) tensor.Fetched {
	f := tensor.Fetched{DType: v.DType, Shape: v.Shape, Bytes: v.Bytes(), Release: func() {}}
	if v.Block != nil {
		v.Block.Retain()
		f.Release = v.Block.Release
	}
	return f
}

// undo takes back what a failed program made, and frees what it would have freed.
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

func (e *engine) Close() error {
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
