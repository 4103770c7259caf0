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
	var m made
	got, err := e.batch(ctx, b, &m)
	if err != nil {
		e.undo(b, m)
	}
	for _, id := range b.Frees {
		e.space.Free(id)
	}
	return got, err
}

// made is what a batch has made so far.
type made struct {
	uploads int  // imported
	results bool // the program has run
}

// batch imports the uploads, runs the program and fetches. m says how far it came.
func (e *engine) batch(ctx context.Context, b *tensor.Batch, m *made) ([]tensor.Fetched, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, u := range b.Uploads {
		var block *shm.Block
		if u.Buf != nil {
			block = u.Buf.(*shm.Block)
			block.Retain()
		}
		if err := e.space.Import(u.ID, u.DType, u.Shape, block); err != nil {
			return nil, err
		}
		m.uploads++
	}
	if b.Program != nil {
		c, err := e.dev.Compile(b.Hash, b.Encoded)
		if err != nil {
			return nil, err
		}
		if err := e.space.Run(c, b.Base, b.Inputs, b.Scalars); err != nil {
			return nil, err
		}
		m.results = true
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

// undo takes back what a failed batch made, and frees what it would have freed.
func (e *engine) undo(b *tensor.Batch, m made) {
	for _, u := range b.Uploads[:m.uploads] {
		e.space.Free(u.ID)
	}
	if b.Program == nil {
		return
	}
	for i, in := range b.Program.Instrs {
		if in.Keep && m.results {
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
