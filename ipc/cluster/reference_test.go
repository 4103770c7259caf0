package cluster_test

import (
	"context"
	"sync"

	"github.com/ringside-go/ringside/ipc/worker"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/enginetest"
)

// reference is a worker's device over enginetest.Reference: slow and right.
type reference struct{ arena *shm.Arena }

func newReference() (worker.Device, error) {
	a, err := shm.NewArena(&shm.ArenaOptions{First: 1 << 20, Checked: true})
	return &reference{a}, err
}

func (d *reference) Name() string      { return "reference" }
func (d *reference) Arena() *shm.Arena { return d.arena }
func (d *reference) Close() error      { return d.arena.Close() }

func (d *reference) Open(uint64) worker.Space {
	return &refSpace{engine: enginetest.Reference(), imports: map[uint64]func(){}}
}

// refSpace has one session's values in a reference engine. The memory of an upload is held until the
// value goes, as an engine does that does not copy it.
type refSpace struct {
	engine  tensor.Engine
	mu      sync.Mutex
	imports map[uint64]func()
}

// memory is somebody else's, as a Buffer.
type memory []byte

func (m memory) Bytes() []byte { return m }
func (m memory) Release()      {}

func (s *refSpace) Import(id uint64, d tensor.DType, shape tensor.Shape, mem []byte, release func()) error {
	_, err := s.engine.Submit(context.Background(), &tensor.Batch{Sync: true,
		Uploads: []tensor.Upload{{ID: id, DType: d, Shape: shape, Buf: memory(mem)}}})
	if err == nil {
		s.imports[id] = release
	}
	return err
}

func (s *refSpace) Run(p *worker.Program, base uint64, inputs []uint64, scalars []float64) error {
	_, err := s.engine.Submit(context.Background(), &tensor.Batch{Sync: true,
		Program: p.Parsed, Encoded: p.Encoded, Hash: p.Hash, Base: base, Inputs: inputs, Scalars: scalars})
	for i, e := range p.Parsed.Externals {
		if e.Donated {
			s.release(inputs[i])
		}
	}
	return err
}

func (s *refSpace) release(id uint64) {
	if f := s.imports[id]; f != nil {
		delete(s.imports, id)
		f()
	}
}

func (s *refSpace) Free(ids []uint64) {
	_, _ = s.engine.Submit(context.Background(), &tensor.Batch{Sync: true, Frees: ids})
	for _, id := range ids {
		s.release(id)
	}
}

func (s *refSpace) Lookup(id uint64) (worker.Value, error) {
	got, err := s.engine.Submit(context.Background(), &tensor.Batch{Fetch: []uint64{id}})
	if err != nil {
		return worker.Value{}, err
	}
	return worker.Value{DType: got[0].DType, Shape: got[0].Shape, Bytes: got[0].Bytes}, nil
}

func (s *refSpace) Close() error {
	for id := range s.imports {
		s.release(id)
	}
	return s.engine.Close()
}
