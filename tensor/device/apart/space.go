package apart

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// maxQueue bounds the calls that wait in a queue, and with them the blocks that they
// hold.
const maxQueue = 16

// call is a call that waits to be carried out.
type call struct {
	do    func()
	block *shm.Block // which do reads, with a reference; may be nil
}

// space is a device.Space that runs late.
//
// The values of cpu are those that exist now, values has those that exist when the queue
// has run. Values that a failure prevented stay in values until the failure is reported,
// so that calls which name them are accepted, as they are by a device that cannot know
// yet.
type space struct {
	dev    *Device
	cpu    device.Space
	values map[uint64]device.Value
	queue  []call
	ended  map[uint64]bool // ids that calls in the queue free
	failed *device.Failure // the oldest that was not reported
	rng    *rand.Rand

	staging []byte       // the last answer of Read
	hosts   []*shm.Block // the last answer of Host
}

// begin begins a call: earlier answers of Read and Host are no longer valid.
func (s *space) begin() {
	for i := range s.staging {
		s.staging[i] = 0xCC
	}
	clear(s.hosts)
	s.staging, s.hosts = nil, s.hosts[:0]
}

// later queues a call, and runs the queue if the seed says so.
func (s *space) later(block *shm.Block, do func()) {
	s.queue = append(s.queue, call{do, block})
	if len(s.queue) >= maxQueue || s.rng.IntN(4) == 0 {
		s.drain()
	}
}

// drain runs the queue.
func (s *space) drain() {
	for len(s.queue) > 0 {
		c := s.queue[0]
		s.queue = s.queue[1:]
		s.carryOut(c)
	}
	clear(s.ended)
}

// carryOut does one call. Reading a peer's memory may panic.
func (s *space) carryOut(c call) {
	if c.block != nil {
		defer c.block.Release()
	}
	c.do()
}

// wait runs the queue and reports the oldest failure. Values that failures prevented
// cease to exist.
func (s *space) wait() error {
	s.drain()
	f := s.failed
	if f == nil {
		return nil
	}
	s.failed = nil
	for id := range s.values {
		if _, ok := s.cpu.Lookup(id); !ok {
			delete(s.values, id)
		}
	}
	return f
}

// Import implements device.Space. The bytes are copied late, but for those of bools,
// which are checked.
func (s *space) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block, _ bool) error {
	s.begin()
	err := s.imports(id, d, shape, b)
	if err == nil && d != tensor.Bool && b != nil {
		n := s.values[id].Bytes()
		s.later(b, func() { s.fill(id, b.Bytes()[:n]) })
		return nil
	}
	if b != nil {
		b.Release()
	}
	return err
}

// imports checks an import and makes the value, whose bytes are to be filled but for
// bools.
func (s *space) imports(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) error {
	if err := shape.Check(); err != nil {
		return err
	}
	if err := device.CheckBlock(d, shape, b); err != nil {
		return err
	}
	if err := s.make(id, d, shape); err != nil {
		return err
	}
	n := s.values[id].Bytes()
	if d != tensor.Bool || n == 0 {
		return nil
	}
	err := s.cpu.Fill(id, b.Bytes()[:n])
	if err != nil {
		s.cpu.Free(id)
		delete(s.values, id)
	}
	return err
}

// fill fills a value that was made and that no call has freed yet.
func (s *space) fill(id uint64, src []byte) {
	if err := s.cpu.Fill(id, src); err != nil {
		panic(fmt.Sprintf("apart: filling value %d: %v", id, err))
	}
}

// Make implements device.Space.
func (s *space) Make(id uint64, d tensor.DType, shape tensor.Shape) error {
	s.begin()
	return s.make(id, d, shape)
}

// make takes the memory of a value at once. If there is none, calls in the queue may free
// some.
func (s *space) make(id uint64, d tensor.DType, shape tensor.Shape) error {
	if s.ended[id] {
		s.drain()
	}
	if _, ok := s.values[id]; ok {
		return fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, id)
	}
	err := s.cpu.Make(id, d, shape)
	if errors.Is(err, tensor.ErrNoSpace) && len(s.queue) > 0 {
		s.drain()
		err = s.cpu.Make(id, d, shape)
	}
	if err == nil {
		s.values[id] = device.Value{DType: d, Shape: shape}
	}
	return err
}

// Fill implements device.Space.
func (s *space) Fill(id uint64, src []byte) error {
	s.begin()
	return s.cpu.Fill(id, src)
}

// Alias implements device.Space.
func (s *space) Alias(as, id uint64) error {
	s.begin()
	v, ok := s.values[id]
	if !ok {
		return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if s.ended[as] {
		s.drain()
	}
	if _, ok := s.values[as]; ok {
		return fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, as)
	}
	s.values[as] = v
	s.later(nil, func() {
		if err := s.cpu.Alias(as, id); err != nil && s.failed == nil {
			panic(fmt.Sprintf("apart: alias %d of %d: %v", as, id, err))
		}
	})
	return nil
}

// Run implements device.Space. It finds mistakes in its arguments at once, and all other
// errors late.
func (s *space) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	s.begin()
	prog := p.Parsed()
	err := s.check(prog, base, inputs, scalars)
	if errors.Is(err, tensor.ErrUnknown) {
		return s.runRest(p, base, inputs, scalars, stop)
	}
	if err != nil {
		for i, e := range prog.Externals {
			if e.Donated && i < len(inputs) {
				s.Free(inputs[i])
			}
		}
		return err
	}
	s.end(prog, inputs)
	for i, in := range prog.Instrs {
		if in.Keep {
			s.values[base+uint64(i)] = device.Value{DType: in.DType, Shape: prog.Shapes[in.Shape]}
		}
	}
	inputs, scalars = slices.Clone(inputs), slices.Clone(scalars)
	s.later(nil, func() {
		err := s.cpu.Run(p, base, inputs, scalars, stop)
		f, ok := err.(*device.Failure)
		if err != nil && !ok {
			f = &device.Failure{Base: base, Err: err}
		}
		s.failed = s.failed.Join(f)
	})
	return nil
}

// runRest runs a program some of whose inputs do not exist, at once, and returns the
// error that says so. Results that do not depend on those inputs exist then.
func (s *space) runRest(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	s.drain()
	prog := p.Parsed()
	err := s.cpu.Run(p, base, inputs, scalars, stop)
	s.end(prog, inputs)
	for i := range prog.Instrs {
		id := base + uint64(i)
		if v, ok := s.cpu.Lookup(id); ok {
			s.values[id] = v
		}
	}
	return err
}

// end forgets the inputs that a program takes.
func (s *space) end(p *tensor.Program, inputs []uint64) {
	for i, e := range p.Externals {
		if e.Donated {
			delete(s.values, inputs[i])
			s.ended[inputs[i]] = true
		}
	}
}

// check returns an error if a program can't be run on these arguments.
func (s *space) check(p *tensor.Program, base uint64, inputs []uint64, scalars []float64) error {
	if err := device.CheckInputs(p, inputs, scalars, s.Lookup); err != nil {
		return err
	}
	for i, in := range p.Instrs {
		if !in.Keep {
			continue
		}
		id := base + uint64(i)
		if s.ended[id] {
			s.drain()
		}
		if _, ok := s.values[id]; ok {
			return fmt.Errorf("%w: result %d would be id %d, which exists", tensor.ErrProgram, i, id)
		}
	}
	return nil
}

// Sync implements device.Space.
func (s *space) Sync() error {
	s.begin()
	return s.wait()
}

// Host implements device.Space. The blocks are copies.
func (s *space) Host(ids ...uint64) ([]*shm.Block, error) {
	s.begin()
	if err := s.wait(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		b, err := s.copyOf(id)
		if err != nil {
			for _, b := range s.hosts {
				if b != nil {
					b.Release()
				}
			}
			return nil, err
		}
		s.hosts = append(s.hosts, b)
	}
	return s.hosts, nil
}

// copyOf returns a block of host memory with the bytes of a value, nil for none.
func (s *space) copyOf(id uint64) (*shm.Block, error) {
	v, ok := s.values[id]
	if !ok {
		return nil, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if v.Bytes() == 0 {
		return nil, nil
	}
	src, err := s.cpu.Read(id, 0, v.Bytes())
	if err != nil {
		return nil, err
	}
	b, err := s.dev.host.Alloc(len(src))
	if err != nil {
		return nil, fmt.Errorf("%w: staging of %d bytes: %w", tensor.ErrNoSpace, len(src), err)
	}
	copy(b.Bytes(), src)
	return b, nil
}

// Read implements device.Space.
func (s *space) Read(id uint64, off, n int) ([]byte, error) {
	s.begin()
	if err := s.wait(); err != nil {
		return nil, err
	}
	b, err := s.cpu.Read(id, off, n)
	s.staging = slices.Clone(b)
	return s.staging, err
}

// Lookup implements device.Space.
func (s *space) Lookup(id uint64) (device.Value, bool) {
	v, ok := s.values[id]
	return v, ok
}

// Free implements device.Space.
func (s *space) Free(id uint64) {
	s.begin()
	if _, ok := s.values[id]; !ok {
		return
	}
	delete(s.values, id)
	s.ended[id] = true
	s.later(nil, func() { s.cpu.Free(id) })
}

// FreeUnread implements device.Space.
func (s *space) FreeUnread(ids, inputs []uint64) {
	for _, id := range ids {
		if !slices.Contains(inputs, id) {
			s.Free(id)
		}
	}
}

// Close implements device.Space. It leaves out the calls in the queue.
func (s *space) Close() {
	s.begin()
	for _, c := range s.queue {
		if c.block != nil {
			c.block.Release()
		}
	}
	s.queue = nil
	s.cpu.Close()
}
