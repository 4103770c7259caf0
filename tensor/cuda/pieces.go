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

// pieces puts the pieces of a group's collectives into streams.
type pieces struct {
	dev     *Device
	graphs  []*pieced
	batches uint64
}

// pieced are pieces that were put into a stream together, and their graph from the second
// time on.
type pieced struct {
	key  []uint64
	last uint64 // the group's count of batches then
	exec driver.GraphExec
}

// graphed is the fewest pieces that become a graph. Those of one tensor are few, and
// lie at other addresses for more steps where they run beside programs.
const graphed = 8

// do puts the pieces into the stream: one call of the driver where they were there
// before, at the same addresses, and are many.
func (p *pieces) do(work []piece, on *memory.Stream) error {
	if len(work) < graphed {
		return p.put(work, on)
	}
	var key []uint64
	for i := range work {
		key = work[i].appendKey(key)
	}
	p.batches++
	at := slices.IndexFunc(p.graphs, func(x *pieced) bool { return slices.Equal(x.key, key) })
	if at < 0 {
		p.remember(key)
		return p.put(work, on)
	}
	x := p.graphs[at]
	x.last = p.batches
	if x.exec == 0 {
		if err := on.Alone(func() error { return p.capture(x, work, on) }); err != nil {
			if p.dev.mem.Lost() != nil {
				return err
			}
			return p.put(work, on) // there is no graph, for want of memory for instance
		}
		p.dev.count.add(&Counters{Captures: 1})
	}
	p.dev.count.add(&Counters{Replays: 1})
	return p.dev.mem.Do(func() error { return p.dev.mem.API().GraphLaunch(x.exec, on.Driver()) })
}

// put puts pieces into a stream one by one.
func (p *pieces) put(work []piece, on *memory.Stream) error {
	return p.dev.mem.Do(func() error {
		for i := range work {
			if work[i].bytes == 0 {
				p.dev.count.add(&Counters{Launches: 1})
			}
			if err := work[i].put(p.dev.mem.API(), on.Driver()); err != nil {
				return err
			}
		}
		return nil
	})
}

// remember notes that pieces were put into a stream, in the place of those of the longest
// ago where there are too many.
func (p *pieces) remember(key []uint64) {
	if len(p.graphs) == maxPieced {
		at := slices.IndexFunc(p.graphs, func(x *pieced) bool { return x.last == slices.MinFunc(p.graphs, older).last })
		p.forget(p.graphs[at])
		p.graphs = slices.Delete(p.graphs, at, at+1)
	}
	p.graphs = append(p.graphs, &pieced{key: key, last: p.batches})
}

func older(x, y *pieced) int { return cmp.Compare(x.last, y.last) }

// forget gives a graph back. The driver keeps it until its last launch has ended.
func (p *pieces) forget(x *pieced) {
	if x.exec == 0 {
		return
	}
	// A lost device has none any more.
	_ = p.dev.mem.Do(func() error { return p.dev.mem.API().GraphExecDestroy(x.exec) })
}

// close gives all graphs back.
func (p *pieces) close() {
	for _, x := range p.graphs {
		p.forget(x)
	}
}

// capture makes the graph of pieces. It is called within Do: a capture is of a thread.
func (p *pieces) capture(x *pieced, work []piece, on *memory.Stream) error {
	api, stream := p.dev.mem.API(), on.Driver()
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
