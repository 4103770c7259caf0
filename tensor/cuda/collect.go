package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// # Collectives
//
// Members meet on the host, which takes no time of a GPU: between meetings each puts work
// into its stream that waits, on the device, for what the others' streams did before the
// meeting. No kernel waits.
//
//	one-shot   meet | fold all of all values                                  | meet
//	two-shot   meet | fold a slice of all values | meet | copy other slices   | meet
//	all others meet | copy parts, or fold a slice                             | meet
//
// At the first meeting they say where their values are, and the segments that the others
// have not opened; at each later one, whether they failed. After the last each stream
// waits until no other reads its memory. Folds are in rank order, as on the host.

// collecting is a collective under way.
type collecting struct {
	*peers
	s      *space
	x      *device.Collective
	size   int // bytes of an element
	in     int // bytes of this member's value
	out    int // of the result
	twice  bool
	src    *shm.Block // nil for no bytes
	dst    *shm.Block // may be src
	from   *pending   // of the value
	values []place    // by rank
	folded []place    // by rank: results of a two-shot all-reduce
	parts  []uint64   // by rank: where in its value this member's part begins
	news   []uint64   // segments that the others are told of
}

// place is memory of a member.
type place struct {
	at driver.DevicePtr
	n  int
}

// Start implements device.Peers.
func (p *peers) Start(sp device.Space, x *device.Collective, meet device.Meet) (device.Pending, error) {
	s, ok := sp.(*space)
	if !ok {
		return nil, fmt.Errorf("cuda: a space of %T, expected one of this package", sp)
	}
	c := &collecting{peers: p, s: s, x: x, size: x.DType.Size()}
	c.out = x.Shape.Elems() * c.size
	c.twice = x.Kind == protocol.AllReduce && c.out >= p.twoShot
	var err error
	if !x.Failed {
		err = c.prepare()
	}
	ok, broken := c.tell(meet, &err)
	if broken == nil && ok {
		if err == nil {
			err = c.first()
		}
		ok, broken = c.agree(meet, err)
		if broken == nil && ok {
			c.heard()
		}
		if broken == nil && ok && c.twice {
			err = c.second()
			ok, broken = c.agree(meet, err)
		}
	}
	if broken != nil {
		c.Drop()
		return nil, broken
	}
	if e := c.wait(eventDone); err == nil {
		err = e
	}
	if err == nil && !ok && !x.Failed {
		err = c.zero()
	}
	if err != nil || x.Failed {
		c.Drop()
		return nil, err
	}
	return c, nil
}

// prepare finds the value and makes room for the result. All that this member's memory
// can refuse is refused here.
func (c *collecting) prepare() error {
	v := c.s.values[c.x.In]
	if v == nil {
		return fmt.Errorf("%w: %d", tensor.ErrUnknown, c.x.In)
	}
	if v.from.gone() {
		if err := c.s.Sync(); err != nil {
			return err
		}
		return fmt.Errorf("%w: %d", tensor.ErrUnknown, c.x.In)
	}
	if c.in = v.Bytes(); c.in != c.given() || v.DType.Size() != c.size {
		return fmt.Errorf("%w: %v of a value of %d bytes, expected %d", tensor.ErrShape, c.x.Kind, c.in, c.given())
	}
	if v.behind { // its bytes are on the host
		if err := c.s.settleIn(v); err != nil {
			return err
		}
	}
	dst, err := c.s.alloc(c.out) // makes the space's stream, too
	if err != nil {
		return err
	}
	c.src, c.dst, c.from = v.block, dst, v.from
	if c.x.InPlace {
		delete(c.s.values, c.x.In)
	} else if c.src != nil {
		c.src.Retain()
	}
	if c.x.InPlace && c.twice && c.src.Refs() == 1 {
		c.s.free(c.dst)
		c.dst = c.src
	}
	return c.record(eventReady, c.s.stream)
}

// given returns the bytes that this member's value has to have.
func (c *collecting) given() int {
	switch c.x.Kind {
	case protocol.ReduceScatter, protocol.AllToAll:
		return total(c.x.Send) * c.size
	case protocol.AllGather:
		return c.x.Recv[c.rank] * c.size
	}
	return c.out
}

func total(counts []int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// tell meets the others, and finds where their values are. It reports whether no member
// failed so far; err is this one's failure.
func (c *collecting) tell(meet device.Meet, err *error) (ok bool, broken error) {
	said, e := c.said(*err)
	if *err == nil {
		*err = e
	}
	all, broken := meet(said)
	if broken != nil {
		return false, broken
	}
	if len(all) != len(c.others) {
		return false, fmt.Errorf("cuda: %d members answered, expected %d", len(all), len(c.others))
	}
	ok = true
	for _, b := range all {
		ok = ok && len(b) == len(said) && b[0] == fine
	}
	if !ok {
		return false, nil
	}
	for r, b := range all {
		if e := c.hear(r, b[1:]); e != nil && *err == nil {
			*err = fmt.Errorf("cuda: %v with rank %d: %w", c.x.Kind, r, e)
		}
	}
	return true, nil
}

// The first byte of a message.
const (
	fine   = 1
	failed = 2
)

// said returns what this member tells the others, which has the same size on all.
//
//	fine | place of the value | place of the result | parts of an all-to-all
//
// A place is a handle, and the export of its segment, or zeros where they have it.
func (c *collecting) said(err error) ([]byte, error) {
	b := []byte{fine}
	for _, block := range []*shm.Block{c.src, c.dst} {
		var h shm.Handle
		export := make([]byte, memory.ExportSize)
		if err == nil && !c.x.Failed && block != nil {
			h = block.Handle()
			var e memory.Export
			if e, err = c.export(h.Segment); err == nil && !c.told[h.Segment] {
				export, c.news = e.Append(nil), append(c.news, h.Segment)
			}
		}
		b = append(h.Append(b), export...)
	}
	if c.x.Kind == protocol.AllToAll {
		off := 0
		for _, k := range c.x.Send {
			b = binary.LittleEndian.AppendUint64(b, uint64(off))
			off += k * c.size
		}
	}
	if err != nil || c.x.Failed {
		b[0] = failed
	}
	return b, err
}

// heard notes that all others have opened the segments that they were told of. Where one
// of the members failed they may not have: they are told again, then.
func (c *collecting) heard() {
	for _, id := range c.news {
		c.told[id] = true
	}
}

// hear reads what member r said: data of another process.
func (c *collecting) hear(r int, b []byte) error {
	want := c.in
	switch c.x.Kind {
	case protocol.AllGather:
		want = c.x.Recv[r] * c.size
	case protocol.AllToAll:
		want = 0 // its parts are checked
	}
	value, b, err := c.hearPlace(r, b, c.src, want)
	if err != nil {
		return err
	}
	c.values = append(c.values, value)
	want = 0
	if c.twice {
		want = c.out
	}
	result, b, err := c.hearPlace(r, b, c.dst, want)
	if err != nil {
		return err
	}
	c.folded = append(c.folded, result)
	if c.x.Kind == protocol.AllToAll {
		mine, n := binary.LittleEndian.Uint64(b[8*c.rank:]), uint64(c.x.Recv[r]*c.size)
		if mine > uint64(value.n) || n > uint64(value.n)-mine {
			return fmt.Errorf("%w: a part of %d bytes at %d of a value of %d", shm.ErrBounds, n, mine, value.n)
		}
		c.parts = append(c.parts, mine)
	}
	return nil
}

// hearPlace reads a place of member r, which has to have n bytes at least, and returns
// the rest of b. mine is the block if r is this member.
func (c *collecting) hearPlace(r int, b []byte, mine *shm.Block, n int) (place, []byte, error) {
	h, export, rest := shm.GetHandle(b), b[shm.HandleSize:][:memory.ExportSize], b[shm.HandleSize+memory.ExportSize:]
	if h == (shm.Handle{}) {
		if n > 0 {
			return place{}, nil, fmt.Errorf("%w: no memory, expected %d bytes", shm.ErrBounds, n)
		}
		return place{}, rest, nil
	}
	if h.Len < uint64(n) || h.Off%alignment != 0 {
		return place{}, nil, fmt.Errorf("%w: %v, expected %d bytes from a multiple of %d on", shm.ErrBounds, h, n, alignment)
	}
	if r == c.rank {
		return place{c.s.at(mine), int(h.Len)}, rest, nil
	}
	if [memory.ExportSize]byte(export) != [memory.ExportSize]byte{} {
		e, err := memory.ParseExport(export)
		if err == nil {
			err = c.imports.Add(uint64(r), e, nil)
		}
		if err != nil {
			return place{}, nil, err
		}
	}
	at, err := c.imports.Resolve(uint64(r), h)
	return place{at, int(h.Len)}, rest, err
}

// agree meets the others, and reports whether no member failed.
func (c *collecting) agree(meet device.Meet, err error) (ok bool, broken error) {
	b := []byte{fine}
	if err != nil {
		b[0] = failed
	}
	all, broken := meet(b)
	if broken != nil {
		return false, broken
	}
	ok = len(all) == len(c.others)
	for _, b := range all {
		ok = ok && len(b) == 1 && b[0] == fine
	}
	return ok, nil
}

// record marks where one of this member's streams has come.
func (c *collecting) record(event int, s *memory.Stream) error {
	return c.dev.mem.Do(func() error { return c.dev.mem.API().EventRecord(c.events[event], s.Driver()) })
}

// wait has the stream of collectives wait for where the others' streams were at the
// meeting before, and for eventReady this member's, which is another stream's.
func (c *collecting) wait(event int) error {
	return c.dev.mem.Do(func() error {
		for r := range c.others {
			e := c.others[r].events[event]
			switch {
			case r == c.rank && event == eventReady:
				e = c.events[event]
			case r == c.rank || c.others[r].process.Ended():
				continue
			}
			if err := c.dev.mem.API().StreamWaitEvent(c.stream.Driver(), e); err != nil {
				return err
			}
		}
		return nil
	})
}

// first does the work between the first two meetings.
func (c *collecting) first() error {
	if err := c.wait(eventReady); err != nil {
		return err
	}
	var err error
	switch c.x.Kind {
	case protocol.AllReduce:
		if c.twice {
			mine := c.slice(c.rank)
			return errors.Join(c.fold(mine.Off, mine.Off, mine.Len), c.record(eventFolded, c.stream))
		}
		err = c.fold(0, 0, c.out)
	case protocol.ReduceScatter:
		err = c.fold(total(c.x.Send[:c.rank])*c.size, 0, c.out)
	default:
		to := 0
		for r, v := range c.values {
			n, off := c.x.Recv[r]*c.size, 0
			if c.x.Kind == protocol.AllToAll {
				off = int(c.parts[r])
			}
			err = errors.Join(err, c.copy(to, v.at+driver.DevicePtr(off), n))
			to += n
		}
	}
	return errors.Join(err, c.record(eventDone, c.stream))
}

// second copies the slices of a two-shot all-reduce that others have folded.
func (c *collecting) second() error {
	err := c.wait(eventFolded)
	for r := range c.others {
		if r == c.rank || err != nil {
			continue
		}
		s := c.slice(r)
		err = c.copy(s.Off, c.folded[r].at+driver.DevicePtr(s.Off), s.Len)
	}
	return errors.Join(err, c.record(eventDone, c.stream))
}

// slice returns what a member folds of a two-shot all-reduce.
func (c *collecting) slice(rank int) protocol.Slice {
	return protocol.PartLines(c.out, c.size, len(c.others), rank)
}

// copy copies n bytes to the result, from off on.
func (c *collecting) copy(off int, from driver.DevicePtr, n int) error {
	if n == 0 {
		return nil
	}
	return c.dev.mem.Do(func() error {
		return c.dev.mem.API().CopyDtoDAsync(c.s.at(c.dst)+driver.DevicePtr(off), from, uint64(n), c.stream.Driver())
	})
}

// zero fills the result with zeros, after another member failed.
func (c *collecting) zero() error {
	if c.dst == nil {
		return nil
	}
	if err := c.stream.After(c.s.stream); err != nil { // nothing waited for eventReady
		return err
	}
	return c.dev.mem.Do(func() error {
		return c.dev.mem.API().Fill8Async(c.s.at(c.dst), 0, uint64(c.out), c.stream.Driver())
	})
}

// maxFold is the most elements of a kernel that folds.
const maxFold = 1 << 30

// fold folds n bytes of all values, from off on, into the result from to on.
func (c *collecting) fold(off, to, n int) error {
	for n > 0 {
		now := min(n, maxFold*c.size)
		if err := c.foldOne(off, to, now); err != nil {
			return err
		}
		off, to, n = off+now, to+now, n-now
	}
	return nil
}

// foldOne launches one kernel of fold.
func (c *collecting) foldOne(off, to, n int) error {
	d := c.x.DType
	if d == tensor.Bool {
		d = tensor.U8
	}
	operand := func(at int) compile.Operand {
		return compile.Operand{Scalar: -1, DType: d, Shape: tensor.Shape{n / c.size}, Strides: []int{1}, Off: at / c.size, Dense: true}
	}
	var srcs []compile.Operand
	var a driver.Args
	for _, v := range c.values {
		srcs = append(srcs, operand(off))
		a.Pointer(v.at + driver.DevicePtr(off))
	}
	k := ptx.Fold(c.x.Op, c.x.Scale != 1, operand(to), srcs...)
	if k == nil {
		return fmt.Errorf("cuda: %v by %v of %v, times %g, has no kernel", c.x.Kind, c.x.Op, d, c.x.Scale)
	}
	a.Pointer(c.s.at(c.dst) + driver.DevicePtr(to))
	for _, scalar := range k.Scalars {
		if err := c.scaleBy(ptx.Bits(scalar.DType, c.x.Scale)); err != nil {
			return err
		}
		a.Pointer(c.dev.pool.Address(c.scale))
	}
	a.Uint32(uint32(k.Elems))
	f, err := c.dev.lower.function(k.Text, ptx.Name)
	if err != nil {
		return err
	}
	c.dev.count.add(&Counters{Launches: 1})
	c.s.queued += k.Elems
	l := driver.Launch{Grid: [3]uint32{uint32(k.Grid()), 1, 1}, Block: [3]uint32{ptx.Threads, 1, 1}, Stream: c.stream.Driver()}
	return c.dev.mem.Do(func() error { return c.dev.mem.API().Launch(f, l, &a) })
}

// scaleBy puts a factor where kernels find it. Those before have read the last one then.
func (p *peers) scaleBy(bits uint64) error {
	if p.factor == bits {
		return nil
	}
	err := p.stream.Write(p.dev.pool.Address(p.scale), binary.LittleEndian.AppendUint64(nil, bits))
	if err == nil {
		p.factor = bits
	}
	return err
}

// Finish implements device.Pending.
func (c *collecting) Finish(id uint64) error {
	err := c.s.stream.After(c.stream)
	if err == nil && c.s.values[id] != nil {
		err = fmt.Errorf("%w: id %d exists", tensor.ErrUnknown, id)
	}
	if err != nil {
		c.Drop()
		return err
	}
	if c.src != c.dst {
		c.release(c.src)
	}
	c.s.put(id, c.x.DType, c.x.Shape, c.dst).from = c.from
	return nil
}

// Drop implements device.Pending.
func (c *collecting) Drop() {
	if c.s.stream == nil {
		return
	}
	_ = c.s.stream.After(c.stream) // a lost device says so at every other call
	if c.src != c.dst {
		c.release(c.src)
	}
	c.release(c.dst)
}

// release gives up the reference to a block, which the space's stream has come past.
func (c *collecting) release(b *shm.Block) {
	if b != nil && b.Refs() > 1 {
		b.Release()
		return
	}
	c.s.free(b)
}
