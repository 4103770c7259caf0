package cuda

import (
	"errors"
	"fmt"
	"slices"

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
//
// Collectives that are started together share the meetings and the events: a call of the
// driver for each event and other member, however many tensors there are.

// batch are collectives that were started together.
type batch struct {
	*peers
	s      *space
	on     *memory.Stream // where they run: of the group, or the space's
	parts  []*collecting
	work   []piece  // for the stream, before the next event
	news   []uint64 // segments that the others are told of
	joined bool     // the space's stream is behind the collectives
	read   bool     // another member may read this one's memory later than that

	// end is an event of a transfer, behind which the space's stream has to be: ended
	// says that it was recorded at the end. Without it, as for collectives, that stream
	// has to be behind all work of the other.
	end   driver.Event
	ended bool
}

// collecting is a collective under way.
type collecting struct {
	*batch
	x      *device.Collective
	size   int // bytes of an element
	in     int // bytes of this member's value
	out    int // of the result
	twice  bool
	over   bool       // its result may lie where its value does
	src    *shm.Block // nil for no bytes
	dst    *shm.Block // may be src
	from   *pending   // of the value
	values []place    // by rank
	folded []place    // by rank: results of a two-shot all-reduce
	begins []uint64   // by rank: where in its value this member's part begins
}

// place is memory of a member.
type place struct {
	at driver.DevicePtr
	n  int
}

// Start implements device.Peers.
func (p *peers) Start(sp device.Space, xs []device.Collective, beside bool, meet device.Meet) ([]device.Pending, error) {
	s, ok := sp.(*space)
	if !ok {
		return nil, fmt.Errorf("cuda: a space of %T, expected one of this package", sp)
	}
	b, failed := newBatch(p, s, xs)
	for _, c := range b.parts {
		c.twice = c.x.Kind == protocol.AllReduce && c.out >= p.twoShot
		c.over = c.twice
	}
	var err error
	if !failed {
		err = b.prepare(beside)
	}
	ok, err, broken := b.run(failed, err, meet)
	if broken != nil {
		b.drop()
		return nil, broken
	}
	if b.on != nil {
		e := b.wait(eventDone)
		if b.read = e != nil; err == nil {
			err = e
		}
	}
	if err == nil && !ok && !failed {
		err = b.zero()
	}
	return b.pending(failed, err)
}

// newBatch returns collectives that are started together, and whether an earlier failure
// of this member keeps it from taking part.
func newBatch(p *peers, s *space, xs []device.Collective) (b *batch, failed bool) {
	b = &batch{peers: p, s: s}
	for i := range xs {
		x := &xs[i]
		c := &collecting{batch: b, x: x, size: x.DType.Size(), over: x.Kind == protocol.AllReduce}
		if x.Kind != protocol.Send {
			c.out = x.Shape.Elems() * c.size
		}
		b.parts = append(b.parts, c)
		failed = failed || x.Failed
	}
	return b, failed
}

// pending returns the results, or gives all up after a failure.
func (b *batch) pending(failed bool, err error) ([]device.Pending, error) {
	if err != nil || failed {
		b.drop()
		return nil, err
	}
	out := make([]device.Pending, len(b.parts))
	for i, c := range b.parts {
		out[i] = c
	}
	return out, nil
}

// run does the work between the meetings. It reports whether no member failed; err is
// this one's failure, before and after.
func (b *batch) run(failed bool, err error, meet device.Meet) (ok bool, _, broken error) {
	ok, broken = b.tell(failed, meet, &err)
	if broken != nil || !ok {
		return ok, err, broken
	}
	if err == nil {
		err = b.first()
	}
	ok, broken = b.agree(meet, err)
	if broken != nil || !ok {
		return ok, err, broken
	}
	b.heard()
	if slices.ContainsFunc(b.parts, func(c *collecting) bool { return c.twice }) {
		err = b.second()
		ok, broken = b.agree(meet, err)
	}
	return ok, err, broken
}

// prepare finds the values and makes room for the results, on the group's stream where
// they are to run beside other work.
func (b *batch) prepare(beside bool) error {
	for _, c := range b.parts {
		if err := c.prepare(); err != nil {
			return err
		}
	}
	if b.on, b.last = b.s.stream, b.s; beside {
		b.on = b.stream
	}
	return b.record(eventReady, b.s.stream)
}

// prepare finds the value and makes room for the result. All that this member's memory
// can refuse is refused here.
func (c *collecting) prepare() error {
	if c.x.Kind == protocol.Recv {
		var err error
		c.dst, err = c.s.alloc(c.out)
		return err
	}
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
	if c.x.InPlace && c.over && c.src != nil && c.src.Refs() == 1 {
		c.s.free(c.dst)
		c.dst = c.src
	}
	return nil
}

// given returns the bytes that this member's value has to have.
func (c *collecting) given() int {
	switch c.x.Kind {
	case protocol.ReduceScatter, protocol.AllToAll:
		return total(c.x.Send) * c.size
	case protocol.AllGather:
		return c.x.Recv[c.rank] * c.size
	case protocol.Send:
		return c.x.Shape.Elems() * c.size
	}
	return c.out
}

func total(counts []int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// record marks where one of this member's streams has come.
func (b *batch) record(event int, s *memory.Stream) error { return b.mark(b.events[event], s) }

// mark records an event.
func (b *batch) mark(e driver.Event, s *memory.Stream) error {
	return b.dev.mem.Do(func() error { return b.dev.mem.API().EventRecord(e, s.Driver()) })
}

// follow has a stream wait for an event.
func (b *batch) follow(s *memory.Stream, e driver.Event) error {
	return b.dev.mem.Do(func() error { return b.dev.mem.API().StreamWaitEvent(s.Driver(), e) })
}

// wait has the stream of the collectives wait for where the others' streams were at the
// meeting before, and for eventReady this member's, where that is another stream.
func (b *batch) wait(event int) error {
	return b.dev.mem.Do(func() error {
		for r := range b.others {
			e := b.others[r].events[event]
			switch {
			case r == b.rank && event == eventReady && b.on != b.s.stream:
				e = b.events[event]
			case r == b.rank || b.others[r].process.Ended():
				continue
			}
			if err := b.dev.mem.API().StreamWaitEvent(b.on.Driver(), e); err != nil {
				return err
			}
		}
		return nil
	})
}

// first does the work between the first two meetings.
func (b *batch) first() error {
	if err := b.wait(eventReady); err != nil {
		return err
	}
	event := eventDone
	for _, c := range b.parts {
		if err := c.first(); err != nil {
			return err
		}
		if c.twice {
			event = eventFolded
		}
	}
	if err := b.give(); err != nil {
		return err
	}
	return b.record(event, b.on)
}

// second copies the slices of two-shot all-reduces that others have folded.
func (b *batch) second() error {
	err := b.wait(eventFolded)
	for _, c := range b.parts {
		if c.twice {
			c.second()
		}
	}
	if err == nil {
		err = b.give()
	}
	return errors.Join(err, b.record(eventDone, b.on))
}

// give puts the work so far into the stream.
func (b *batch) give() error {
	work := b.work
	b.work = nil
	return b.pieces.do(work, b.on)
}

// first folds or copies what the first two meetings are for.
func (c *collecting) first() error {
	switch c.x.Kind {
	case protocol.AllReduce:
		if c.twice {
			mine := c.slice(c.rank)
			return c.fold(mine.Off, mine.Off, mine.Len)
		}
		return c.fold(0, 0, c.out)
	case protocol.ReduceScatter:
		return c.fold(total(c.x.Send[:c.rank])*c.size, 0, c.out)
	}
	to := 0
	for r, v := range c.values {
		n, off := c.x.Recv[r]*c.size, 0
		if c.x.Kind == protocol.AllToAll {
			off = int(c.begins[r])
		}
		c.copy(to, v.at+driver.DevicePtr(off), n)
		to += n
	}
	return nil
}

// second copies the slices that others have folded.
func (c *collecting) second() {
	for r := range c.others {
		if r != c.rank {
			s := c.slice(r)
			c.copy(s.Off, c.folded[r].at+driver.DevicePtr(s.Off), s.Len)
		}
	}
}

// slice returns what a member folds of a two-shot all-reduce.
func (c *collecting) slice(rank int) protocol.Slice {
	return protocol.PartLines(c.out, c.size, len(c.others), rank)
}

// copy copies n bytes to the result, from off on.
func (c *collecting) copy(off int, from driver.DevicePtr, n int) {
	if n > 0 {
		c.work = append(c.work, piece{to: c.s.at(c.dst) + driver.DevicePtr(off), from: from, bytes: uint64(n)})
	}
}

// zero fills the results with zeros, after another member failed.
func (b *batch) zero() error {
	if b.on != b.s.stream { // nothing waited for eventReady
		if err := b.on.After(b.s.stream); err != nil {
			return err
		}
	}
	return b.fill()
}

// fill fills the results with zeros.
func (b *batch) fill() error {
	return b.dev.mem.Do(func() error {
		for _, c := range b.parts {
			if c.dst == nil {
				continue
			}
			if err := b.dev.mem.API().Fill8Async(b.s.at(c.dst), 0, uint64(c.out), b.on.Driver()); err != nil {
				return err
			}
		}
		return nil
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

// foldOne adds one kernel of fold.
func (c *collecting) foldOne(off, to, n int) error {
	d := c.x.DType
	if d == tensor.Bool {
		d = tensor.U8
	}
	operand := func(at int) compile.Operand {
		return compile.Operand{Scalar: -1, DType: d, Shape: tensor.Shape{n / c.size}, Strides: []int{1}, Off: at / c.size, Dense: true}
	}
	var srcs []compile.Operand
	var p piece
	for _, v := range c.values {
		srcs = append(srcs, operand(off))
		p.args.Pointer(v.at + driver.DevicePtr(off))
	}
	k := ptx.Fold(c.x.Op, c.x.Scale, operand(to), srcs...)
	if k == nil {
		return fmt.Errorf("cuda: %v by %v of %v, times %g, has no kernel", c.x.Kind, c.x.Op, d, c.x.Scale)
	}
	p.args.Pointer(c.s.at(c.dst) + driver.DevicePtr(to)).Uint32(uint32(k.Elems))
	f, err := c.dev.lower.function(k.Text, ptx.Name)
	if err != nil {
		return err
	}
	c.s.queued += k.Elems
	p.function, p.grid = f, uint32(k.Grid())
	c.work = append(c.work, p)
	return nil
}

// Finish implements device.Pending.
func (c *collecting) Finish(id uint64) error {
	err := c.join()
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
	release := c.release
	// A lost device says so at every other call.
	if err := c.join(); err != nil || c.read {
		release = c.keep
	}
	if c.src != c.dst {
		release(c.src)
	}
	release(c.dst)
}

// join puts the space's stream behind the collectives, once.
func (b *batch) join() error {
	if b.joined || b.on == nil || b.on == b.s.stream {
		return nil
	}
	var err error
	if b.ended {
		err = b.follow(b.s.stream, b.end)
	} else {
		err = b.s.stream.After(b.on)
	}
	b.joined = err == nil
	return err
}

// drop gives up all results.
func (b *batch) drop() {
	for _, c := range b.parts {
		c.Drop()
	}
}

// release gives up the reference to a block, which the space's stream has come past.
func (c *collecting) release(b *shm.Block) {
	if b != nil && b.Refs() > 1 {
		b.Release()
		return
	}
	c.s.free(b)
}
