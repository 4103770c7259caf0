package cuda

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

const (
	// maxInstances bounds the instances of a plan. Layers are alike, so that one plan may
	// run for each of them in a step, at addresses of its own.
	maxInstances = 32

	maxGraphs = 64  // plans of a space that have instances
	stale     = 128 // runs of its plan after which an instance gives way to another
)

// segment is a range of steps that all have kernels. Its launches can be one graph.
type segment struct {
	from, to int
	work     int // see kernel.work
	launches int
}

// segmentsOf returns the longest segments of a plan.
func segmentsOf(kernels []*kernel) (out []segment) {
	for i, k := range kernels {
		switch last := len(out) - 1; {
		case k == nil:
		case last >= 0 && out[last].to == i:
			out[last].to, out[last].work, out[last].launches = i+1, out[last].work+k.work(), out[last].launches+len(k.launches)
		default:
			out = append(out, segment{i, i + 1, k.work(), len(k.launches)})
		}
	}
	return out
}

// graphs are the instances of a plan in a space.
type graphs struct {
	runs      int
	fetched   []int  // outputs that the host reads, see small.go
	last      uint64 // the space's run that was the plan's last one
	instances []*instance
}

// instance is what a plan launches where all it touches lies at certain addresses.
type instance struct {
	key  []uint64           // addresses, and numbers that are arguments themselves
	last int                // the plan's run that used it last
	exec []driver.GraphExec // of each segment; 0 before its capture

	fetched []int // the outputs that it collects
}

// instance returns the instance for a run's addresses, nil for a run without: the first
// of a plan, one with other addresses than those that are in use, and one that is a
// single launch, which a graph would not make cheaper.
func (r *running) instance() *instance {
	g := r.graphs[r.c]
	if g == nil {
		if len(r.graphs) == maxGraphs {
			r.forget()
		}
		g = &graphs{}
		r.graphs[r.c] = g
	}
	g.runs++
	g.last = r.runs
	if g.runs == 1 || len(r.c.segments) == 0 || r.c.single() {
		return nil
	}
	key := r.key()
	at := slices.IndexFunc(g.instances, func(x *instance) bool { return slices.Equal(x.key, key) })
	if at < 0 && len(g.instances) == maxInstances {
		at = slices.IndexFunc(g.instances, func(x *instance) bool { return g.runs-x.last > stale })
		if at < 0 {
			return nil
		}
		r.destroy(g.instances[at])
		g.instances, at = slices.Delete(g.instances, at, at+1), -1
	}
	if at < 0 {
		at = len(g.instances)
		x := &instance{key: key, exec: make([]driver.GraphExec, len(r.c.segments))}
		if !r.c.hosted {
			x.fetched = slices.Clone(g.fetched)
		}
		g.instances = append(g.instances, x)
	}
	g.instances[at].last = g.runs
	return g.instances[at]
}

// single reports whether the program is one launch.
func (c *compiled) single() bool {
	n := 0
	for _, k := range c.kernels {
		if k == nil {
			return false
		}
		n += len(k.launches)
	}
	return n == 1
}

// key returns what the launches of a run depend on.
func (r *running) key() []uint64 {
	key := []uint64{uint64(r.scratch)}
	for i := range r.buffers {
		key = append(key, uint64(r.buffers[i].at))
	}
	for _, s := range r.c.values {
		key = append(key, s.Bits(r.scalars))
	}
	return key
}

// forget gives up the instances of the plan that was not run for the longest time.
func (s *space) forget() {
	var oldest *compiled
	for c, g := range s.graphs {
		if oldest == nil || g.last < s.graphs[oldest].last {
			oldest = c
		}
	}
	for _, x := range s.graphs[oldest].instances {
		s.destroy(x)
	}
	delete(s.graphs, oldest)
}

// destroy gives an instance back. The driver keeps it until its last launch has ended.
func (s *space) destroy(x *instance) {
	_ = s.dev.mem.Do(func() (err error) { // a lost device has none any more
		for _, e := range x.exec {
			if e != 0 {
				err = errors.Join(err, s.dev.mem.API().GraphExecDestroy(e))
			}
		}
		return err
	})
}

// segment runs segment n, by its graph where x is not nil.
func (r *running) segment(n int, x *instance) error {
	seg := &r.c.segments[n]
	if seg.work > maxLaunch {
		x = nil
	}
	for i := seg.from; i < seg.to; i++ {
		var err error
		each(&r.c.plan.Steps[i], func(buf int) {
			if err == nil {
				err = r.upload(buf)
			}
		})
		if err != nil {
			return err
		}
		r.written(i)
	}
	if seg.launches == 0 && (n > 0 || r.c.checks == 0) {
		return nil
	}
	if n == 0 && x == nil {
		if err := r.noFailures(); err != nil {
			return err
		}
	}
	if x == nil {
		return r.eachStep(seg, r.launch)
	}
	if r.queued += seg.work; r.queued > maxLaunch {
		if err := r.settle(); err != nil {
			return err
		}
	}
	before := len(r.checked)
	if x.exec[n] == 0 {
		if err := r.stream.Alone(func() error { return r.capture(n, x) }); err != nil {
			return r.uncaptured(n, err)
		}
		r.did.Captures++
	} else {
		r.check(seg)
	}
	r.did.Replays++
	err := r.do(func() error { return r.dev.mem.API().GraphLaunch(x.exec[n], r.stream.Driver()) })
	if err != nil {
		r.checked = r.checked[:before] // they did not run
		return err
	}
	r.fetched = x.fetched
	return nil
}

// uncaptured launches the kernels of a segment of which no graph could be made, for want
// of memory for instance. err is why.
func (r *running) uncaptured(n int, err error) error {
	if r.dev.mem.Lost() != nil {
		return err
	}
	seg := &r.c.segments[n]
	r.queued -= seg.work // launch counts it again
	if n == 0 {
		if err := r.noFailures(); err != nil {
			return err
		}
	}
	return r.eachStep(seg, r.launch)
}

// eachStep calls f for the steps of a segment while the program is not to stop.
func (r *running) eachStep(seg *segment, f func(i int) error) error {
	for i := seg.from; i < seg.to; i++ {
		if err := r.stopped(i); err != nil {
			return err
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// check notes the steps of a segment that may fail, in the order of their launches.
func (r *running) check(seg *segment) {
	for i := seg.from; i < seg.to; i++ {
		if r.c.kernels[i].bound > 0 {
			r.checked = append(r.checked, i)
		}
	}
}

// capture makes the graph of a segment. It is called within Do: a capture is of a thread.
func (r *running) capture(n int, x *instance) error {
	api := r.dev.mem.API()
	if err := api.CaptureBegin(r.stream.Driver(), driver.CaptureThreadLocal); err != nil {
		return err
	}
	var err error
	if n == 0 {
		err = r.noFailures()
	}
	seg, before := &r.c.segments[n], len(r.checked)
	for i := seg.from; i < seg.to && err == nil; i++ {
		err = r.kernels(i)
	}
	if err == nil {
		err = r.collect(x)
	}
	g, e := api.CaptureEnd(r.stream.Driver())
	if err != nil || e != nil {
		if e == nil {
			e = api.GraphDestroy(g)
		}
		r.checked = r.checked[:before] // they did not run
		return cmp.Or(err, e)
	}
	x.exec[n], err = api.GraphInstantiate(g)
	if e := api.GraphDestroy(g); err == nil {
		err = e
	}
	if err != nil {
		r.checked = r.checked[:before]
	}
	return err
}
