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

// Device is the device under an engine of this package; nil for another's.
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

func (e *engine) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, tensor.ErrClosed
	}
	defer func() {
		for _, id := range b.Frees {
			e.space.Free(id)
		}
	}()
	if err := e.batch(b); err != nil || len(b.Fetch) == 0 {
		return nil, err
	}
	out := make([]tensor.Fetched, 0, len(b.Fetch))
	for _, id := range b.Fetch {
		v := e.space.Lookup(id)
		if v == nil {
			for _, f := range out {
				f.Release()
			}
			return nil, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
		}
		f := tensor.Fetched{DType: v.DType, Shape: v.Shape, Bytes: v.Bytes(), Release: func() {}}
		if v.Block != nil {
			v.Block.Retain()
			f.Release = v.Block.Release
		}
		out = append(out, f)
	}
	return out, nil
}

// batch imports the uploads and runs the program.
func (e *engine) batch(b *tensor.Batch) error {
	for _, u := range b.Uploads {
		var block *shm.Block
		if u.Buf != nil {
			block = u.Buf.(*shm.Block)
			block.Retain()
		}
		if err := e.space.Import(u.ID, u.DType, u.Shape, block); err != nil {
			return err
		}
	}
	if b.Program == nil {
		return nil
	}
	c, err := e.dev.Compile(b.Hash, b.Encoded)
	if err == nil {
		err = e.space.Run(c, b.Base, b.Inputs, b.Scalars)
	}
	if err != nil {
		for _, u := range b.Uploads {
			e.space.Free(u.ID)
		}
	}
	return err
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
