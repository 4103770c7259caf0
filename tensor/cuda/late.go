package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/device"
)

// maxLate is how many programs may be under way of which it is not known whether they
// failed.
const maxLate = 64

// pending is a program whose Run has returned before it was known whether the program
// fails: it checks indices, or reads results of a program that does.
type pending struct {
	base    uint64
	c       *compiled
	checked []int      // steps that may fail
	record  []byte     // where the first of these that fails writes which step it is
	found   []byte     // pinned: where the device copies results to
	results []*value   // the values of those results
	reads   []*pending // programs that may fail and made some of its inputs
	known   bool       // err is known
	err     error      // why there are no results
}

// mayFail reports whether values that p made may not exist.
func (p *pending) mayFail() bool { return p != nil && (!p.known || p.err != nil) }

// gone reports whether values that p made do not exist.
func (p *pending) gone() bool { return p != nil && p.err != nil }

// A record is where the first check of a program that fails writes its step. It lies in
// host memory that the device can write: nothing is copied, and a program without a
// failure writes nothing there. Steps run one after another, so a check that fails writes
// only if the record is still empty.
//
//	the step u32 | the place in its index u32 | the index there s64
//
// In an empty record all bits are set. A space has a ring of records. Every program takes
// one, also if it is stopped. A record is taken again only when the host has waited for
// the stream.
const (
	recordBytes = 16
	maxRecords  = 2 * maxLate
)

// records are the records of a space.
type records struct {
	bytes []byte           // nil before the first
	at    driver.DevicePtr // its address for the device
	next  int
	taken int // since settle
}

// take returns the next record, and its address for the device. It is called within Do.
func (r *records) take(api driver.API) ([]byte, driver.DevicePtr, error) {
	if r.bytes == nil {
		b, err := api.HostAlloc(maxRecords*recordBytes, driver.HostDeviceMap)
		if err != nil {
			return nil, 0, err
		}
		if r.at, err = api.HostDevicePointer(b); err != nil {
			return nil, 0, errors.Join(err, api.HostFree(b))
		}
		r.bytes = b
	}
	at := r.next * recordBytes
	r.next, r.taken = (r.next+1)%maxRecords, r.taken+1
	b := r.bytes[at:][:recordBytes:recordBytes]
	copy(b, slices.Repeat([]byte{0xff}, recordBytes))
	return b, r.at + driver.DevicePtr(at), nil
}

// note notes that the program may fail, if it may, and has the stream copy the results
// that the host reads to the host.
func (r *running) note(base uint64) (*pending, error) {
	p := &pending{base: base, c: r.c, checked: r.checked, record: r.record}
	for _, v := range r.got {
		if v.from.mayFail() {
			p.reads = append(p.reads, v.from)
		}
	}
	if len(p.checked)+len(p.reads)+len(r.fetched) == 0 {
		return nil, nil
	}
	n := maxResult * len(r.fetched)
	if err := r.room(n); err != nil {
		return nil, err
	}
	for _, q := range p.reads {
		if q.gone() { // room has waited
			fails(r.space, base, errLostInput)
			p.known, p.err = true, q.err
			return p, nil
		}
	}
	if n > 0 {
		p.found, p.results = r.pin(n), make([]*value, len(r.fetched))
		err := r.do(func() error { return r.dev.mem.API().CopyDtoHAsync(p.found, r.results, r.stream.Driver()) })
		if err != nil {
			return nil, err
		}
	}
	r.late = append(r.late, p)
	return p, nil
}

// pin returns n bytes of pinned memory, for which room has made room. The stream may use
// them until the next settle.
func (s *space) pin(n int) []byte {
	b := s.pinned[s.taken:][:n:n]
	s.taken += n
	return b
}

// room makes room for one more program and n bytes of pinned memory. It waits for the
// programs before where there is none. The record taken last may be that of a program
// which is being run, and is in use after settle too.
func (s *space) room(n int) error {
	if s.taken+n <= len(s.pinned) && len(s.late) < maxLate && s.records.taken < maxRecords-1 {
		return nil
	}
	if err := s.settle(); err != nil || n <= len(s.pinned) {
		return err
	}
	return s.do(func() error {
		if s.pinned != nil {
			if err := s.dev.mem.API().HostFree(s.pinned); err != nil {
				return err
			}
		}
		var err error
		s.pinned, err = s.dev.mem.API().HostAlloc(max(n, 256<<10), 0)
		return err
	})
}

// settle waits for all work, and finds out which programs failed.
func (s *space) settle() error {
	s.queued = 0
	if err := s.stream.Sync(); err != nil {
		return err
	}
	for _, p := range s.late {
		for _, q := range p.reads {
			if p.err == nil {
				p.err = q.err
			}
		}
		if p.err != nil {
			fails(s, p.base, errLostInput)
		} else if p.err = p.c.failureIn(p.record); p.err != nil {
			fails(s, p.base, p.err)
		}
		p.received()
		p.known, p.reads, p.found, p.record = true, nil, nil, nil
	}
	clear(s.late)
	s.late, s.taken, s.records.taken = s.late[:0], 0, 0
	return nil
}

// errLostInput is the failure of a program that reads a result of one that failed.
var errLostInput = fmt.Errorf("%w: an input is the result of a program that failed", tensor.ErrUnknown)

// fails notes the failure of a program, which is to be reported.
func fails(s *space, base uint64, err error) {
	s.failed = s.failed.Join(&device.Failure{Base: base, Err: err})
}

// report returns the failures, once, and ends the values that they prevented.
func (s *space) report() error {
	f := s.failed
	if f == nil {
		return nil
	}
	s.failed = nil
	for id, v := range s.values {
		if v.from.gone() {
			s.Free(id)
		}
	}
	return f
}

// dropped makes the results of a program that does not run, as inputs of it are gone, and
// reports whether it did.
func (s *space) dropped(c *compiled, base uint64) bool {
	for _, v := range s.got {
		if v.from.gone() {
			fails(s, base, errLostInput)
			for i := range c.plan.Outputs {
				s.result(c, base, i, nil, v.from)
			}
			return true
		}
	}
	return false
}

// unsure reports whether inputs may not exist.
func (s *space) unsure() bool {
	for _, v := range s.got {
		if v.from.mayFail() {
			return true
		}
	}
	return false
}

// failureIn returns the error of the first step that had an index out of range, which is
// in record; nil for none. record is nil where no step checks one.
func (c *compiled) failureIn(record []byte) error {
	if record == nil || binary.LittleEndian.Uint32(record) == math.MaxUint32 {
		return nil
	}
	i, place := binary.LittleEndian.Uint32(record), binary.LittleEndian.Uint32(record[4:])
	v := int64(binary.LittleEndian.Uint64(record[8:]))
	if int64(i) >= int64(len(c.kernels)) || c.kernels[i] == nil || c.kernels[i].bound == 0 {
		return fmt.Errorf("cuda: a failure of step %d, expected one of %d steps that checks an index; the GPU wrote other bytes than its kernels", i, len(c.kernels))
	}
	k := c.kernels[i]
	err := fmt.Errorf("%w: %d at place %d; expected %d to %d", tensor.ErrIndex, v, place, k.least, k.bound-1)
	return c.plan.RunError(c.plan.Steps[i].Instr, err)
}
