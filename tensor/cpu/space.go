package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

// value is one tensor of a space.
type value struct {
	device.Value
	block *shm.Block // nil for a value of no bytes; the space holds one reference
	// strides, in elements, say in which order of dims the value lies; nil is row-major.
	strides []int

	run   uint64 // number of the run that it was last an input of
	twice bool   // it is more than one of that run's inputs
}

// exclusive reports whether a program may write to v's memory: it is the device's own, it
// has no other reference, and v is only one of the program's inputs. Two results might
// take the memory of a value that is two inputs.
func (v *value) exclusive() bool {
	return v.block != nil && !v.twice && v.block.Refs() == 1 && !v.block.ReadOnly()
}

// space is a device.Space whose values lie in host memory. Programs run during Run.
type space struct {
	dev    *Device
	values map[uint64]*value
	free   []*value     // to be used again
	got    []*value     // the inputs of the run that is being prepared
	hosts  []*shm.Block // the last answer of Host
	runs   uint64       // number of the run that is being prepared
}

// Close implements device.Space.
func (s *space) Close() {
	for id := range s.values {
		s.Free(id)
	}
}

// Lookup implements device.Space.
func (s *space) Lookup(id uint64) (device.Value, bool) {
	v := s.values[id]
	if v == nil {
		return device.Value{}, false
	}
	return v.Value, true
}

// Free implements device.Space. The value's memory goes back with its last reference.
func (s *space) Free(id uint64) {
	v := s.values[id]
	if v == nil {
		return
	}
	delete(s.values, id)
	if v.block != nil {
		v.block.Release()
	}
	*v = value{}
	s.free = append(s.free, v)
}

// largeFree is the size from which on a value is freed before the next program runs
// rather than after it.
const largeFree = 64 << 10

// FreeUnread implements device.Space. It frees the large values: results of the program
// then find room in memory that is still in the caches.
func (s *space) FreeUnread(ids, inputs []uint64) {
	marked := false
	for _, id := range ids {
		v := s.values[id]
		if v == nil || v.block == nil || v.block.Len() < largeFree {
			continue
		}
		if !marked {
			marked = true
			s.runs++
			for _, in := range inputs {
				if v := s.values[in]; v != nil {
					v.run = s.runs
				}
			}
		}
		if v.run != s.runs {
			s.Free(id)
		}
	}
}

// check returns an error unless a value of that id, dtype and shape may be made. n is how
// many bytes it has.
func (s *space) check(id uint64, d tensor.DType, shape tensor.Shape) (n int, err error) {
	if err := shape.Check(); err != nil {
		return 0, err
	}
	if s.values[id] != nil {
		return 0, fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, id)
	}
	return shape.Elems() * d.Size(), nil
}

// Import implements device.Space. The value stays where it is unless it is going to be
// updated and b is read only. A peer may write to b at any time: kernels then compute
// from some of the bytes that it had. A bool whose byte it made neither 0 nor 1 has no
// defined value; nothing but values made of it depends on that.
func (s *space) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block, own bool) error {
	kept, err := s.imported(id, d, shape, b, own)
	if b != nil && kept != b {
		b.Release()
	}
	if err == nil {
		s.put(id, d, shape, kept)
	}
	return err
}

// imported returns the block in which an imported value is to lie: b, a copy of it, or
// nil for a value of no bytes. The caller still has its reference to b.
func (s *space) imported(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block, own bool) (*shm.Block, error) {
	n, err := s.check(id, d, shape)
	if err != nil || n == 0 {
		return nil, err
	}
	if err := device.CheckBlock(d, shape, b); err != nil {
		return nil, err
	}
	if err := device.CheckBools(d, b.Bytes()[:n]); err != nil {
		return nil, err
	}
	if !own || !b.ReadOnly() {
		return b, nil
	}
	c, err := s.dev.alloc(n)
	if err != nil {
		return nil, err
	}
	copy(s.dev.view(c, n), b.Bytes())
	return c, nil
}

// Make implements device.Space.
func (s *space) Make(id uint64, d tensor.DType, shape tensor.Shape) error {
	n, err := s.check(id, d, shape)
	if err != nil {
		return err
	}
	b, err := s.dev.alloc(n)
	if err != nil {
		return err
	}
	s.put(id, d, shape, b)
	return nil
}

// Fill implements device.Space.
func (s *space) Fill(id uint64, src []byte) error {
	v := s.values[id]
	if v == nil {
		return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if err := device.CheckFill(v.Value, src); err != nil {
		return err
	}
	v.strides = nil
	copy(s.bytes(v), src)
	return nil
}

// Alias implements device.Space. The two values share their block.
func (s *space) Alias(as, id uint64) error {
	v := s.values[id]
	if v == nil {
		return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if s.values[as] != nil {
		return fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, as)
	}
	if v.block != nil {
		v.block.Retain()
	}
	s.put(as, v.DType, v.Shape, v.block)
	s.values[as].strides = v.strides
	return nil
}

// put makes a value of a block, whose reference it takes over.
func (s *space) put(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) {
	var v *value
	if n := len(s.free); n > 0 {
		v, s.free = s.free[n-1], s.free[:n-1]
	} else {
		v = new(value)
	}
	*v = value{Value: device.Value{DType: d, Shape: shape}, block: b}
	s.values[id] = v
}

// bytes returns the content of a value.
func (s *space) bytes(v *value) []byte { return s.dev.view(v.block, v.Bytes()) }

// Sync implements device.Space: Run returns when the program has run.
func (s *space) Sync() error { return nil }

// Host implements device.Space. The blocks are those that the values lie in, in row-major
// order.
func (s *space) Host(ids ...uint64) ([]*shm.Block, error) {
	s.hosts = s.hosts[:0]
	for _, id := range ids {
		v := s.values[id]
		if v == nil {
			return nil, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
		}
		if err := s.rowMajor(v); err != nil {
			return nil, err
		}
		s.hosts = append(s.hosts, v.block)
	}
	for _, b := range s.hosts {
		if b != nil {
			b.Retain()
		}
	}
	return s.hosts, nil
}

// Read implements device.Space. The bytes are the value's own.
func (s *space) Read(id uint64, off, n int) ([]byte, error) {
	v := s.values[id]
	if v == nil {
		return nil, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if err := device.CheckRange(v.Value, off, n); err != nil {
		return nil, err
	}
	if err := s.rowMajor(v); err != nil {
		return nil, err
	}
	return s.bytes(v)[off : off+n], nil
}

// Run implements device.Space. An instruction that failed is named by a *tensor.RunError.
func (s *space) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	c := p.(*compiled)
	err := s.run(c, base, inputs, scalars, stop)
	if errors.Is(err, tensor.ErrIndex) || errors.Is(err, tensor.ErrUnknown) {
		err = s.rest(c.plan.Program, base, inputs, scalars, stop, err)
	}
	for i, e := range c.plan.Program.Externals {
		if e.Donated && i < len(inputs) {
			s.Free(inputs[i])
		}
	}
	return err
}

// run runs c, which leaves its inputs as they are if it fails.
func (s *space) run(c *compiled, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	if err := s.prepare(c, base, inputs, scalars); err != nil {
		return err
	}
	laid, err := s.forInputs(c)
	if err != nil {
		return err
	}
	return s.dev.execute(s, laid, base, scalars, stop)
}

// prepare checks a run's arguments and finds its inputs.
func (s *space) prepare(c *compiled, base uint64, inputs []uint64, scalars []float64) error {
	p := c.plan.Program
	if len(inputs) != len(p.Externals) || len(scalars) != p.NumScalars {
		return fmt.Errorf("%w: %d inputs and %d scalars, expected %d and %d", tensor.ErrProgram, len(inputs), len(scalars), len(p.Externals), p.NumScalars)
	}
	s.got = s.got[:0]
	s.runs++
	for i, id := range inputs {
		v := s.values[id]
		if v == nil {
			return fmt.Errorf("%w: %d, input %d of the program", tensor.ErrUnknown, id, i)
		}
		e := &p.Externals[i]
		if v.DType != e.DType || !v.Shape.Equal(p.Shapes[e.Shape]) {
			return fmt.Errorf("%w: input %d is %v%v, id %d is %v%v", tensor.ErrProgram, i, e.DType, p.Shapes[e.Shape], id, v.DType, v.Shape)
		}
		v.twice, v.run = v.run == s.runs, s.runs
		s.got = append(s.got, v)
	}
	for _, o := range c.plan.Outputs {
		if id := base + uint64(o.Instr); s.values[id] != nil {
			return fmt.Errorf("%w: result %d would be id %d, which exists", tensor.ErrProgram, o.Instr, id)
		}
	}
	return nil
}
