package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// pool is the threads that help the caller's with a step. A step has at least as many parts as there are threads, and
// whoever is free claims one: a helper that has no core at the moment costs nothing, since the caller does its part. The
// caller claims from the first part on, helpers from the last back, so that with two threads each tends to find in its
// cache what it wrote a step before.
//
// While a program runs helpers spin, so that handing a step over costs a tenth of a microsecond; soon after it they park.
type pool struct {
	lanes   []*run // one a thread, the caller's first
	helpers []helper
	step    func(r *run) error // the job: the caller's, but while a part is claimed
	parts   int                // of the job, as step
	errs    [maxParts]error    // of each part that failed: whoever claimed it writes it, before it counts left down
	failed  atomic.Bool        // one of errs is set
	closed  atomic.Bool
	ended   sync.WaitGroup

	_ [64]byte // what follows is written by all threads, each on a line of its own

	// job is the number of the job (upper half) and its unclaimed parts: the end of them (16 bits) and the first (16 bits).
	// A claim changes the very number it read, so that nobody claims a part of a job that is over.
	job  atomic.Uint64
	busy atomic.Bool // a program runs: more jobs are to be expected
	_    [52]byte
	left atomic.Int32 // parts that are not done
	_    [60]byte
}

// helper is a goroutine of the pool.
type helper struct {
	parked atomic.Bool
	wake   chan struct{} // of one: whoever clears parked sends
	_      [64]byte      // not on a line with the next
}

const (
	// maxParts bounds the parts of a step.
	maxParts = 256
	// idleSpins before a helper parks when no program runs: some 60 µs, in which the next one may come.
	idleSpins = 40_000
	// busySpins is the same while one runs, in steps that aren't shared: about a millisecond.
	busySpins = 16 * idleSpins
	// yieldEvery spins the caller lets another goroutine run, in case a helper waits for that.
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

// begin says that jobs are about to come: helpers await them spinning, until end.
func (p *pool) begin() {
	p.busy.Store(true)
	p.wakeAll()
}

func (p *pool) end() { p.busy.Store(false) }

// run has all parts of step done, of which there are at most maxParts, and returns the first error, by the order of the
// parts.
func (p *pool) run(step func(r *run) error, parts int) error {
	p.step, p.parts = step, parts
	p.left.Store(int32(parts))
	p.job.Store((p.job.Load()>>32+1)<<32 | uint64(parts)<<16) // synchronizes before a claim
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
	var first error
	for i, err := range p.errs[:parts] {
		if first == nil {
			first = err
		}
		p.errs[i] = nil
	}
	return first
}

// claim does a part that nobody has yet, the first or the last; false if there is none.
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
			p.left.Add(-1) // synchronizes before the caller's load that sees 0
			return true
		}
	}
}

// unclaimed says whether job j has parts that nobody claimed.
func unclaimed(j uint64) bool { return uint16(j) < uint16(j>>16) }

// do does r's part. A panic must not leave while others are at work on theirs.
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
	debug.SetPanicOnFault(true) // memory that a peer took away is an error of the program
	for p.await(&p.helpers[i]) {
		for p.claim(p.lanes[i+1], false) {
		}
	}
}

// await returns when there may be a part to claim; false when the pool closes.
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
		h.parked.Store(true) // synchronizes with wakeAll: one of both sees what the other wrote
		if p.ready() && h.parked.CompareAndSwap(true, false) {
			continue // it came meanwhile and nobody has sent
		}
		<-h.wake
	}
}

func (p *pool) ready() bool { return unclaimed(p.job.Load()) || p.closed.Load() }

// wakeAll wakes helpers that are parked: for a job that is there, or one that is about to come, which they await
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

// panicked is a panic as an error.
func panicked(x any) error { return fmt.Errorf("%w: %v\n%s", ErrInternal, x, debug.Stack()) }
