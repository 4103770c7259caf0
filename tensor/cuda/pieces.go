package cuda

import (
	"cmp"
	"slices"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/internal/ptx"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// piece is a part of collectives between two events: a kernel that folds, or a copy.
type piece struct {
	function driver.Function
	grid     uint32
	args     driver.Args

	to, from driver.DevicePtr
	bytes    uint64 // 0 for a kernel
}

// appendKey appends all that a piece depends on.
func (p *piece) appendKey(key []uint64) []uint64 {
	key = append(key, uint64(p.function), uint64(p.grid), uint64(p.to), uint64(p.from), p.bytes, uint64(len(p.args.Values())))
	return append(key, p.args.Values()...)
}

// put puts a piece into a stream.
func (p *piece) put(api driver.API, s driver.Stream) error {
	if p.bytes > 0 {
		return api.CopyDtoDAsync(p.to, p.from, p.bytes, s)
	}
	return api.Launch(p.function, driver.Launch{Grid: [3]uint32{p.grid, 1, 1}, Block: [3]uint32{ptx.Threads, 1, 1}, Stream: s}, &p.args)
}

// maxPieced bounds the graphs of pieces that a group keeps.
const maxPieced = 128

// pieced are pieces that were put into a stream together, and their graph from the second
// time on.
type pieced struct {
	key  []uint64
	last uint64 // the group's count of batches then
	exec driver.GraphExec
}

// do puts the pieces into the stream: one call of the driver where they were there
// before, at the same addresses.
func (b *batch) do() error {
	work := b.work
	b.work = nil
	if len(work) < 2 {
		return b.put(work, b.on)
	}
	var key []uint64
	for i := range work {
		key = work[i].appendKey(key)
	}
	b.batches++
	at := slices.IndexFunc(b.pieced, func(x *pieced) bool { return slices.Equal(x.key, key) })
	if at < 0 {
		b.remember(key)
		return b.put(work, b.on)
	}
	x := b.pieced[at]
	x.last = b.batches
	if x.exec == 0 {
		if err := b.on.Alone(func() error { return b.capture(x, work) }); err != nil {
			if b.dev.mem.Lost() != nil {
				return err
			}
			return b.put(work, b.on) // there is no graph, for want of memory for instance
		}
		b.dev.count.add(&Counters{Captures: 1})
	}
	b.dev.count.add(&Counters{Replays: 1})
	return b.dev.mem.Do(func() error { return b.dev.mem.API().GraphLaunch(x.exec, b.on.Driver()) })
}

// put puts pieces into a stream one by one.
func (b *batch) put(work []piece, on *memory.Stream) error {
	return b.dev.mem.Do(func() error {
		for i := range work {
			if work[i].bytes == 0 {
				b.dev.count.add(&Counters{Launches: 1})
			}
			if err := work[i].put(b.dev.mem.API(), on.Driver()); err != nil {
				return err
			}
		}
		return nil
	})
}

// remember notes that pieces were put into a stream, in the place of those of the longest
// ago where there are too many.
func (b *batch) remember(key []uint64) {
	if len(b.pieced) == maxPieced {
		at := slices.IndexFunc(b.pieced, func(x *pieced) bool { return x.last == slices.MinFunc(b.pieced, older).last })
		b.forget(b.pieced[at])
		b.pieced = slices.Delete(b.pieced, at, at+1)
	}
	b.pieced = append(b.pieced, &pieced{key: key, last: b.batches})
}

func older(x, y *pieced) int { return cmp.Compare(x.last, y.last) }

// forget gives a graph back. The driver keeps it until its last launch has ended.
func (p *peers) forget(x *pieced) {
	if x.exec == 0 {
		return
	}
	// A lost device has none any more.
	_ = p.dev.mem.Do(func() error { return p.dev.mem.API().GraphExecDestroy(x.exec) })
}

// capture makes the graph of pieces. It is called within Do: a capture is of a thread.
func (b *batch) capture(x *pieced, work []piece) error {
	api, stream := b.dev.mem.API(), b.on.Driver()
	if err := api.CaptureBegin(stream, driver.CaptureThreadLocal); err != nil {
		return err
	}
	var err error
	for i := range work {
		if err == nil {
			err = work[i].put(api, stream)
		}
	}
	g, e := api.CaptureEnd(stream)
	if err != nil || e != nil {
		if e == nil {
			e = api.GraphDestroy(g)
		}
		return cmp.Or(err, e)
	}
	x.exec, err = api.GraphInstantiate(g)
	return cmp.Or(err, api.GraphDestroy(g))
}
