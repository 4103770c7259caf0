package cuda

import (
	"encoding/binary"
	"slices"

	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// Copies of small values cost a call of the driver each, however few bytes they have. So
// small values travel together with what a run sends and receives in any case.
//
// Up: a small value that comes from the host stays there at first; it is called behind.
// The next run that reads it sends its bytes in the run's page, after the scalars: one
// copy for all. When a second run reads it, it is copied into device memory of its own,
// since more runs may read it, and is not behind any more.
//
//	page of a run     scalars | address of its record, where it checks indices |
//	                  inputs that are behind, each at a multiple of alignment
//
// Down: a run's graph copies the results that the host read in earlier runs, such as
// losses, beside each other, maxResult bytes each. One copy takes all of them to pinned
// memory. The host keeps the bytes once it has waited for the run for any reason.

const (
	// maxKept bounds the bytes of a value that stays on the host, and maxPage those of a
	// run's page that are such values.
	maxKept, maxPage = 16 << 10, 64 << 10

	// maxBehind bounds the bytes of a space's values that are behind.
	maxBehind = 8 << 20

	// maxResult bounds the bytes of a result that its run copies to the host, and
	// maxResults the results of a run.
	maxResult, maxResults = 64, 16
)

// do calls f in the device's context, see memory.Device.Do. Within it do costs nothing.
func (s *space) do(f func() error) error {
	if s.bound {
		return f()
	}
	return s.dev.mem.Do(func() error {
		s.bound = true
		defer func() { s.bound = false }()
		return f()
	})
}

// keeps reports whether a value of n bytes stays on the host at first.
func (s *space) keeps(n int) bool { return n <= maxKept && s.kept+n <= maxBehind }

// keep makes a value one that is behind, with those bytes.
func (s *space) keep(v *value, bytes []byte) {
	s.caughtUp(v)
	v.bytes, v.behind, v.sent = bytes, true, false
	s.kept += len(bytes)
}

// caughtUp ends a value's being behind.
func (s *space) caughtUp(v *value) {
	if v.behind {
		v.behind = false
		s.kept -= len(v.bytes)
	}
}

// settleIn copies a value that is behind into memory of its own.
func (s *space) settleIn(v *value) error {
	if v.block == nil {
		var err error
		if v.block, err = s.alloc(len(v.bytes)); err != nil {
			return err
		}
	}
	s.dev.count.add(&Counters{Up: uint64(len(v.bytes))})
	if err := s.stream.Write(s.at(v.block), v.bytes); err != nil {
		return err
	}
	s.caughtUp(v)
	return nil
}

// inputs finds the inputs that the run sends in its page. All others have memory of their
// own afterwards.
func (r *running) inputs() error {
	r.sends = r.sends[:0]
	r.pageBytes = r.c.scalarBytes()
	for _, v := range r.got {
		if !v.behind || slices.Contains(r.sends, v) {
			continue
		}
		at := roundUp(r.pageBytes)
		if v.sent || r.c.hosted || at+len(v.bytes) > maxPage {
			if err := r.settleIn(v); err != nil {
				return err
			}
			continue
		}
		r.sends = append(r.sends, v)
		r.pageBytes = at + len(v.bytes)
	}
	return nil
}

// scalarBytes returns the bytes of a page before its inputs.
func (c *compiled) scalarBytes() int { return 8 * (len(c.page) + min(c.checks, 1)) }

// roundUp returns n rounded up to a multiple of alignment.
func roundUp(n int) int { return (n + alignment - 1) / alignment * alignment }

// place gives the inputs in the page their addresses.
func (r *running) place() {
	at := r.c.scalarBytes()
	for _, v := range r.sends {
		at = roundUp(at)
		v.page, v.sent = r.page+driver.DevicePtr(at), true
		at += len(v.bytes)
	}
}

// sendPage sends the scalars of generated kernels and the inputs that are behind.
func (r *running) sendPage() error {
	if r.pageBytes == 0 {
		return nil
	}
	if err := r.room(r.pageBytes); err != nil {
		return err
	}
	if r.c.checks > 0 {
		err := r.do(func() (err error) {
			r.record, r.recordAt, err = r.records.take(r.dev.mem.API())
			return err
		})
		if err != nil {
			return err
		}
	}
	b := r.pin(r.pageBytes)
	for i, s := range r.c.page {
		binary.LittleEndian.PutUint64(b[8*i:], s.Bits(r.scalars))
	}
	if r.c.checks > 0 {
		binary.LittleEndian.PutUint64(b[8*len(r.c.page):], uint64(r.recordAt))
	}
	for _, v := range r.sends {
		copy(b[v.page-r.page:], v.bytes)
		r.did.Up += uint64(len(v.bytes))
	}
	return r.do(func() error { return r.dev.mem.API().CopyHtoDAsync(r.page, b, r.stream.Driver()) })
}

// input returns where an input lies in the run.
func (r *running) input(v *value) driver.DevicePtr {
	if v.behind {
		return v.page
	}
	return r.at(v.block)
}

// fetched notes that the host reads a value: later runs of its program copy it. A value
// without bytes has nothing to copy, and no address.
func (s *space) fetched(v *value) {
	if v.made == nil || v.Bytes() == 0 || v.Bytes() > maxResult || slices.Contains(v.made.fetched, v.out) || len(v.made.fetched) == maxResults {
		return
	}
	v.made.fetched = append(v.made.fetched, v.out)
}

// arrive waits for a value's bytes if its program copies them to the host.
func (s *space) arrive(v *value) error {
	s.fetched(v)
	if v.coming && v.bytes == nil {
		return s.settle()
	}
	return nil
}

// collect copies the results of an instance to where one copy takes them to the host. It
// is a part of the instance's graph.
func (r *running) collect(x *instance) error {
	for i, out := range x.fetched {
		o := &r.c.plan.Outputs[out]
		b, n := r.buffers[o.Buf].at, r.c.plan.Buffers[o.Buf].Size
		to := r.results + driver.DevicePtr(maxResult*i)
		if err := r.dev.mem.API().CopyDtoDAsync(to, b, uint64(n), r.stream.Driver()); err != nil {
			return err
		}
	}
	return nil
}

// orNone returns p where results of the program may not exist, nil for all others.
func (p *pending) orNone() *pending {
	if p == nil || len(p.checked)+len(p.reads) == 0 && p.err == nil {
		return nil
	}
	return p
}

// expects notes that v is output i of the program, if that is one of those fetched.
func (p *pending) expects(i int, fetched []int, v *value) {
	if k := slices.Index(fetched, i); k >= 0 && p != nil && len(p.results) > 0 {
		p.results[k], v.coming = v, true
	}
}

// received gives values the bytes that their program has copied to the host.
func (p *pending) received() {
	if p.err != nil {
		return
	}
	for i, v := range p.results {
		if v != nil && !v.behind {
			v.bytes = slices.Clone(p.found[maxResult*i:][:v.Bytes()])
		}
	}
	p.results = nil
}
