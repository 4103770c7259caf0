package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/tensor"
)

// pool is the threads that help the caller's thread with a step. A step has at least as
// many parts as there are threads, and each free thread claims one. A helper that has no
// core at the moment costs nothing, since the caller does its part. The caller claims
// from the first part on, helpers from the last part back. So with two threads each tends
// to find in its cache the elements that it wrote a step before.
//
// While a program runs helpers spin, so that handing over a step is quick; soon after it
// they park.
type pool struct {
	lanes   []*run // one a thread, the caller's first
	helpers []helper
	// the job: only the caller writes it, and only while no part is claimed
	step  func(r *run) error
	parts int // of the job, as step
	// of each part that failed: the thread that claimed it writes it
	errs   [maxParts]error
	failed atomic.Bool // one of errs is set
	closed atomic.Bool
	ended  sync.WaitGroup

	_ [64]byte // all threads write the fields below, each on a line of its own

	// job is the number of the job (upper half) and its unclaimed parts: the end of them
	// (16 bits) and the first (16 bits). A claim replaces the value that it read, and
	// every job has another number, so a part of a finished job can't be claimed.
	job  atomic.Uint64
	busy atomic.Bool // a program runs: expect more jobs
	_    [52]byte
	left atomic.Int32 // parts that are not done
	_    [60]byte
}

// helper is a goroutine of the pool.
type helper struct {
	parked atomic.Bool
	wake   chan struct{} // of one: the thread that clears parked sends
	_      [64]byte      // not on a line with the next helper
}

const (
	// maxParts bounds the parts of a step.
	maxParts = 256
	// idleSpins is the number of spins before a helper parks when no program runs: long
	// enough for the next program to begin.
	idleSpins = 40_000
	// busySpins is the same while a program runs, in steps that aren't shared.
	busySpins = 16 * idleSpins
	// yieldEvery is the number of spins after which the caller lets another goroutine
	// run, in case a helper waits for its thread.
	yieldEvery = 1000
)

func newPool(lanes []*run) *pool {
	p := &pool{lanes: lanes, helpers: make([]helper, len(lanes)-1)}
	for i := range p.helpers {
		p.helpers[i].wake = make(chan struct{}, 1)
		p.ended.Add(1)
		go p.help(i)
	}
	return p
}

// begin announces jobs: helpers await them spinning, until end.
func (p *pool) begin() {
	p.busy.Store(true)
	p.wakeAll()
}

func (p *pool) end() { p.busy.Store(false) }

// run has all parts of step done, at most maxParts, and returns the first error in the
// order of the parts.
func (p *pool) run(step func(r *run) error, parts int) error {
	p.step, p.parts = step, parts
	p.left.Store(int32(parts))
	// The caller stores step, parts and left before job. A helper's load of job in claim
	// that sees the new number is synchronized after them.
	p.job.Store((p.job.Load()>>32+1)<<32 | uint64(parts)<<16)
	p.wakeAll()
	r := p.lanes[0]
	for p.claim(r, true) {
	}
	r.part, r.parts = 0, 1
	for n := 1; p.left.Load() != 0; n++ {
		if n%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
	if !p.failed.Load() {
		return nil
	}
	p.failed.Store(false)
	first := cmp.Or(p.errs[:parts]...)
	clear(p.errs[:parts])
	return first
}

// claim does a part that is not claimed yet, the first or the last. It returns false if
// there is none.
func (p *pool) claim(r *run, front bool) bool {
	for {
		j := p.job.Load()
		part, next := int(uint16(j)), j+1
		if !unclaimed(j) {
			return false
		}
		if !front {
			part, next = int(uint16(j>>16))-1, j-1<<16
		}
		if p.job.CompareAndSwap(j, next) {
			r.part, r.parts = part, p.parts
			if err := p.do(r); err != nil {
				p.errs[part] = err
				p.failed.Store(true)
			}
			// Every thread stores results, errs and failed before it decrements left. The
			// caller's load of left that sees 0 is synchronized after all of them.
			p.left.Add(-1)
			return true
		}
	}
}

// unclaimed reports whether job j has unclaimed parts.
func unclaimed(j uint64) bool { return uint16(j) < uint16(j>>16) }

// do does r's part. A panic must not unwind while other threads work on their parts.
func (p *pool) do(r *run) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicked(x)
		}
	}()
	return p.step(r)
}

func (p *pool) help(i int) {
	defer p.ended.Done()
	// a fault in memory that a peer unmapped is an error of the program
	debug.SetPanicOnFault(true)
	for p.await(&p.helpers[i]) {
		for p.claim(p.lanes[i+1], false) {
		}
	}
}

// await returns true when there may be a part to claim, and false when the pool closes.
func (p *pool) await(h *helper) bool {
	for {
		for n := 0; n < busySpins; n++ {
			if p.ready() {
				return !p.closed.Load()
			}
			if !p.busy.Load() {
				n += busySpins/idleSpins - 1
			}
		}
		// The helper stores parked and then loads job (in ready); run and close store job
		// or closed and then load parked (in wakeAll). These are sequentially consistent,
		// so one of the two sees the other's store, and no job is missed.
		h.parked.Store(true)
		if p.ready() && h.parked.CompareAndSwap(true, false) {
			continue // the job came meanwhile, and no thread has sent to wake
		}
		<-h.wake
	}
}

func (p *pool) ready() bool { return unclaimed(p.job.Load()) || p.closed.Load() }

// wakeAll wakes helpers that are parked: for a job, or for jobs to come, which they await
// spinning.
func (p *pool) wakeAll() {
	for i := range p.helpers {
		if h := &p.helpers[i]; h.parked.Load() && h.parked.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
}

func (p *pool) close() {
	p.closed.Store(true)
	p.wakeAll()
	p.ended.Wait()
}

// panicked returns a panic as an error.
func panicked(x any) error {
	if err, ok := x.(error); ok && errors.Is(err, tensor.ErrNoSpace) {
		return err // of grow
	}
	return fmt.Errorf("%w: %v\n%s", ErrInternal, x, debug.Stack())
}
