package cuda

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
)

// value is one tensor of a space.
type value struct {
	device.Value
	block *shm.Block // of the device's pool, nil for a value of no bytes

	// bytes are the value's on the host, nil where it has none. behind says that block,
	// if there is one, does not hold them yet: see small.go.
	bytes  []byte
	behind bool
	sent   bool             // it is behind, and a run has sent it in its page
	page   driver.DevicePtr // where it is in the page of the run that sends it
	coming bool             // the program that made it also copies it to the host

	made *graphs // the graphs of the program that made it, nil for none
	out  int     // which of that program's outputs it is

	from *pending // the program that made it, if that may fail

	run   uint64 // number of the last run or FreeUnread of which it was an input
	twice bool   // that run has it as more than one input
}

// exclusive reports whether a program may write to v's memory: it has no other reference,
// and v is only one of the program's inputs.
func (v *value) exclusive() bool {
	return v.block != nil && !v.behind && !v.twice && v.block.Refs() == 1
}

// spare is a block that no value uses any more.
type spare struct {
	*shm.Block
	freed uint64 // space.runs when the last value let go of it
}

// maxSpare is how many runs a block stays spare before it goes back to the device.
const maxSpare = 256

// space is a device.Space whose values lie in device memory. All work on them goes
// through one stream, so that its order is that of the calls.
type space struct {
	dev    *Device
	stream *memory.Stream // nil before the first value
	values map[uint64]*value
	temp   *shm.Block   // temporaries of programs, as large as the largest has needed
	got    []*value     // the inputs of the run that is being prepared
	runs   uint64       // number of the last run or FreeUnread, which count it up
	queued int          // elements that the kernels in flight compute
	hosts  []*shm.Block // the slice that Host returned last, used again
	read   []byte       // the bytes that Read returned last, used again
	graphs map[*compiled]*graphs

	mu    sync.Mutex // guards spare: another space's alloc may flush it
	spare []spare    // blocks for the next values of the space, the oldest first

	library *memory.Stream // of the last collectives by a library, nil for none

	bound bool // the thread has the device's context until do ends
	kept  int  // bytes of values that are behind

	late   []*pending // programs that may have failed: the host does not know yet
	pinned []byte     // host memory for scalars, and for results that the host reads
	taken  int        // bytes of pinned that are in use

	records records // of failures

	failed *device.Failure // the failures that were not reported, nil for none
}

// Lookup implements device.Space.
func (s *space) Lookup(id uint64) (device.Value, bool) {
	v := s.values[id]
	if v == nil {
		return device.Value{}, false
	}
	return v.Value, true
}

// alloc returns memory for n bytes, nil for none. It makes the stream if there is none.
func (s *space) alloc(n int) (*shm.Block, error) {
	if s.stream == nil {
		var err error
		if s.stream, err = s.dev.mem.NewStream(); err != nil {
			return nil, noSpace(err)
		}
	}
	if n == 0 {
		return nil, nil
	}
	if b := s.reuse(memory.Size(n)); b != nil {
		return b, nil
	}
	b, err := s.dev.pool.Alloc(n)
	if errors.Is(err, shm.ErrNoSpace) {
		s.dev.flush()
		b, err = s.dev.pool.Alloc(n)
	}
	if err != nil {
		return nil, noSpace(fmt.Errorf("%d bytes: %w", n, err))
	}
	return b, nil
}

// noSpace returns the error of a failed allocation.
func noSpace(err error) error {
	switch {
	case errors.Is(err, memory.ErrLost):
		return err
	case errors.Is(err, shm.ErrClosed):
		return fmt.Errorf("%w: %w", tensor.ErrClosed, err)
	}
	return fmt.Errorf("%w: %w", tensor.ErrNoSpace, err)
}

// free gives up a value's reference to its block. If it was the last one the block
// becomes spare, and later work of the stream may use its memory at once. So a program
// that is run again has its results at the same addresses, however far the device is
// behind.
func (s *space) free(b *shm.Block) {
	switch {
	case b == nil:
	case b.Refs() == 1:
		s.mu.Lock()
		s.spare = append(s.spare, spare{b, s.runs})
		s.mu.Unlock()
	default:
		s.stream.Release(b)
	}
}

// reuse returns a spare block of n bytes, nil if there is none. It takes the one with the
// lowest address, so that the choice does not depend on the order in which blocks were
// freed: that may change from step to step of a training run.
func (s *space) reuse(n int) *shm.Block {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := -1
	for i, b := range s.spare {
		if b.Len() == n && (at < 0 || s.at(b.Block) < s.at(s.spare[at].Block)) {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	b := s.spare[at].Block
	s.spare = slices.Delete(s.spare, at, at+1)
	return b
}

// flush gives the blocks that became spare before a run back to the device. The device
// has them once it has done all work that is in the stream now.
func (s *space) flush(run uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.spare) && s.spare[n].freed < run {
		s.stream.Release(s.spare[n].Block)
		n++
	}
	s.spare = slices.Delete(s.spare, 0, n)
}

// spare returns the bytes of the spare blocks of all spaces.
func (d *Device) spare() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.spaces {
		s.mu.Lock()
		for _, b := range s.spare {
			n += int64(b.Len())
		}
		s.mu.Unlock()
	}
	return n
}

// flush gives the spare blocks of all spaces back to the device.
func (d *Device) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.spaces {
		s.flush(math.MaxUint64)
	}
}

// release gives up a reference to a block, which work in the stream may still use.
func (s *space) release(b *shm.Block) {
	if b != nil {
		s.stream.Release(b)
	}
}

// at returns where a block lies on the device, 0 for nil.
func (s *space) at(b *shm.Block) driver.DevicePtr {
	if b == nil {
		return 0
	}
	return s.dev.pool.Address(b)
}

// put makes a value of a block, whose reference it takes over.
func (s *space) put(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) *value {
	v := &value{Value: device.Value{DType: d, Shape: shape}, block: b}
	s.values[id] = v
	return v
}

// Make implements device.Space.
func (s *space) Make(id uint64, d tensor.DType, shape tensor.Shape) error {
	if err := shape.Check(); err != nil {
		return err
	}
	if s.values[id] != nil {
		return fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, id)
	}
	b, err := s.alloc(shape.Elems() * d.Size())
	if err != nil {
		return err
	}
	s.put(id, d, shape, b)
	return nil
}

// maxHeld is how many imported blocks wait for the next run, which releases them.
const maxHeld = 16

// Import implements device.Space. A small value that is not going to be updated stays on
// the host, see small.go. The stream may read pinned memory of this process after Import
// has returned. Import itself reads all other memory.
func (s *space) Import(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block, own bool) error {
	n, err := s.imports(id, d, shape, b)
	if err == nil && n > 0 {
		err = s.importBytes(id, d, shape, b, own)
		if err == nil && s.stream != nil && s.stream.Held() > maxHeld {
			err = s.stream.Mark()
		}
		return err
	}
	if b != nil {
		b.Release()
	}
	if err == nil {
		err = s.Make(id, d, shape)
	}
	return err
}

// importBytes makes a value of b, whose reference it takes over.
func (s *space) importBytes(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block, own bool) error {
	n := shape.Elems() * d.Size()
	if !own && s.keeps(n) {
		defer b.Release()
		if s.values[id] != nil {
			return fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, id)
		}
		// b may be a peer's memory, which it may write to.
		bytes := slices.Clone(b.Bytes()[:n])
		if err := device.CheckBools(d, bytes); err != nil {
			return err
		}
		s.keep(s.put(id, d, shape, nil), bytes)
		return nil
	}
	if err := s.Make(id, d, shape); err != nil {
		b.Release()
		return err
	}
	s.dev.count.add(&Counters{Up: uint64(n)})
	err := s.stream.Upload(s.at(s.values[id].block), b, n)
	if err != nil {
		s.Free(id)
	}
	return err
}

// imports checks that b has the bytes of a value, and returns their number.
func (s *space) imports(id uint64, d tensor.DType, shape tensor.Shape, b *shm.Block) (n int, err error) {
	if err := shape.Check(); err != nil {
		return 0, err
	}
	if err := device.CheckBlock(d, shape, b); err != nil {
		return 0, err
	}
	if n = shape.Elems() * d.Size(); n > 0 {
		err = device.CheckBools(d, b.Bytes()[:n])
	}
	return n, err
}

// Fill implements device.Space.
func (s *space) Fill(id uint64, src []byte) error {
	v := s.values[id]
	if v == nil {
		return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if err := device.CheckFill(v.Value, src); err != nil || len(src) == 0 {
		return err
	}
	if s.keeps(len(src)) {
		s.keep(v, slices.Clone(src))
		return nil
	}
	s.dev.count.add(&Counters{Up: uint64(len(src))})
	return s.stream.Write(s.at(v.block), src)
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
	a := s.put(as, v.DType, v.Shape, v.block)
	a.from, a.made, a.out = v.from, v.made, v.out
	if v.behind {
		s.keep(a, v.bytes)
		a.sent = v.sent
	}
	return nil
}

// Run implements device.Space.
func (s *space) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, stop *atomic.Bool) error {
	c := p.(*compiled)
	err := s.prepare(c, base, inputs, scalars)
	if err == nil && c.hosted && s.unsure() {
		err = s.settle() // steps on the host read nothing that is not there
	}
	if err == nil && !s.dropped(c, base) {
		err = s.execute(c, base, scalars, stop)
	}
	for i, e := range c.plan.Program.Externals {
		if e.Donated && i < len(inputs) {
			s.Free(inputs[i])
		}
	}
	if s.stream == nil {
		return err
	}
	if s.runs > maxSpare {
		s.flush(s.runs - maxSpare)
	}
	if e := s.stream.Mark(); err == nil {
		err = e
	}
	return err
}

// prepare checks a run's arguments and finds its inputs.
func (s *space) prepare(c *compiled, base uint64, inputs []uint64, scalars []float64) error {
	if err := device.CheckInputs(c.plan.Program, inputs, scalars, s.Lookup); err != nil {
		return err
	}
	for _, o := range c.plan.Outputs {
		if id := base + uint64(o.Instr); s.values[id] != nil {
			return fmt.Errorf("%w: result %d would be id %d, which exists", tensor.ErrProgram, o.Instr, id)
		}
	}
	s.got = s.got[:0]
	s.runs++
	for _, id := range inputs {
		v := s.values[id]
		v.twice, v.run = v.run == s.runs, s.runs
		s.got = append(s.got, v)
	}
	return nil
}

// Sync implements device.Space.
func (s *space) Sync() error {
	if s.stream == nil {
		return nil
	}
	if err := s.settle(); err != nil {
		return err
	}
	return s.report()
}

// Host implements device.Space. The blocks are copies.
func (s *space) Host(ids ...uint64) ([]*shm.Block, error) {
	s.hosts = s.hosts[:0]
	err := s.copies(ids)
	if e := s.Sync(); e != nil { // of an earlier program: it may be why err is set
		err = e
	}
	if err == nil {
		return s.hosts, nil
	}
	for _, b := range s.hosts {
		if b != nil {
			b.Release()
		}
	}
	return nil, err
}

// copies begins to copy values to host memory, and appends the blocks to s.hosts.
func (s *space) copies(ids []uint64) error {
	var down uint64
	for _, id := range ids {
		v := s.values[id]
		if v == nil {
			return fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
		}
		if err := s.arrive(v); err != nil {
			return err
		}
		if v.block == nil && v.bytes == nil {
			s.hosts = append(s.hosts, nil)
			continue
		}
		b, err := s.dev.hostBlock(v.Bytes())
		if err != nil {
			return err
		}
		s.hosts = append(s.hosts, b)
		if v.bytes != nil {
			copy(b.Bytes(), v.bytes)
			continue
		}
		if err := s.stream.Download(b, s.at(v.block), v.Bytes()); err != nil {
			return err
		}
		down += uint64(v.Bytes())
	}
	s.dev.count.add(&Counters{Down: down})
	return nil
}

// Read implements device.Space.
func (s *space) Read(id uint64, off, n int) ([]byte, error) {
	v := s.values[id]
	if v == nil {
		return nil, fmt.Errorf("%w: %d", tensor.ErrUnknown, id)
	}
	if err := device.CheckRange(v.Value, off, n); err != nil || n == 0 {
		return nil, err
	}
	if len(s.late) > 0 || s.failed != nil {
		if err := s.Sync(); err != nil {
			return nil, err
		}
	}
	if err := s.arrive(v); err != nil {
		return nil, err
	}
	if v.bytes != nil {
		return v.bytes[off:][:n:n], nil
	}
	if cap(s.read) < n {
		s.read = make([]byte, n)
	}
	s.dev.count.add(&Counters{Down: uint64(n)})
	return s.read[:n], s.stream.Read(s.read[:n], s.at(v.block)+driver.DevicePtr(off))
}

// Free implements device.Space. Work that is in the stream already may still use the
// memory, and work that follows may use it for other values (see free).
func (s *space) Free(id uint64) {
	if v := s.values[id]; v != nil {
		delete(s.values, id)
		s.caughtUp(v)
		s.free(v.block)
	}
}

// FreeUnread implements device.Space. If the results of a program's last run are freed
// now, its next run has its results at the same addresses.
func (s *space) FreeUnread(ids, inputs []uint64) {
	s.runs++
	for _, id := range inputs {
		if v := s.values[id]; v != nil {
			v.run = s.runs
		}
	}
	for _, id := range ids {
		if v := s.values[id]; v != nil && v.run != s.runs {
			s.Free(id)
		}
	}
}

// Close implements device.Space. It waits for the work in the stream, which uses the
// memory.
func (s *space) Close() {
	for id := range s.values {
		s.Free(id)
	}
	if s.stream != nil {
		s.flush(math.MaxUint64)
	}
	s.dev.mu.Lock()
	delete(s.dev.spaces, s)
	s.dev.mu.Unlock()
	if s.stream == nil {
		return
	}
	s.release(s.temp)
	for len(s.graphs) > 0 {
		s.forget()
	}
	_ = s.stream.Close() // a lost device says so at every other call
	for _, b := range [][]byte{s.pinned, s.records.bytes} {
		if b != nil {
			_ = s.do(func() error { return s.dev.mem.API().HostFree(b) })
		}
	}
	s.temp, s.stream, s.pinned, s.records, s.late = nil, nil, nil, records{}, nil
}
