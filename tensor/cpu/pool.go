package cpu

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// pool is the threads that help the caller's with a step. A step has as many parts as there are threads, and whoever is
// free claims the next one: a helper that has no core at the moment costs nothing, since the caller does its part.
// Between steps of a program helpers spin, so that handing one over costs a tenth of a microsecond; then they park.
type pool struct {
	lanes   []*run // one a thread, the caller's first
	helpers []helper
	step    func(r *run) error // the job: the caller's, but while a part is claimed
	errs    []error            // of each part that failed: whoever claimed it writes it, before it counts left down
	failed  atomic.Bool        // one of errs is set
	closed  atomic.Bool
	ended   sync.WaitGroup

	_ [64]byte // what follows is written by all threads, each on a line of its own

	// job is the number of the job (upper half) and its next unclaimed part (lower half). A claim adds 1 to the very
	// number it read, so that nobody claims a part of a job that is over.
	job  atomic.Uint64
	_    [56]byte
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
	// spins before a helper parks: about 30 µs, which is longer than most steps that aren't shared take.
	spins = 20000
	// yieldEvery spins the caller lets another goroutine run, in case a helper waits for that.
	yieldEvery = 1000
)

func newPool(lanes []*run) *pool {
	p := &pool{lanes: lanes, helpers: make([]helper, len(lanes)-1), errs: make([]error, len(lanes))}
	p.job.Store(uint64(len(lanes))) // no part left to claim
	for i := range p.helpers {
		p.helpers[i].wake = make(chan struct{}, 1)
		p.ended.Add(1)
		go p.help(i)
	}
	return p
}

// run has all parts of step done and returns the first error, by the order of the parts.
func (p *pool) run(step func(r *run) error) error {
	p.step = step
	p.left.Store(int32(len(p.lanes)))
	p.job.Store((p.job.Load()>>32 + 1) << 32) // synchronizes before a claim
	p.wakeAll()
	r := p.lanes[0]
	r.parts = len(p.lanes)
	for p.claim(r) {
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
	for i, err := range p.errs {
		if first == nil {
			first = err
		}
		p.errs[i] = nil
	}
	return first
}

// claim does a part that nobody has yet; false if there is none.
func (p *pool) claim(r *run) bool {
	for {
		j := p.job.Load()
		part := int(uint32(j))
		if part >= len(p.lanes) {
			return false
		}
		if p.job.CompareAndSwap(j, j+1) {
			r.part = part
			if err := p.do(r); err != nil {
				p.errs[part] = err
				p.failed.Store(true)
			}
			p.left.Add(-1) // synchronizes before the caller's load that sees 0
			return true
		}
	}
}

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
		p.claim(p.lanes[i+1])
	}
}

// await returns when there may be a part to claim; false when the pool closes.
func (p *pool) await(h *helper) bool {
	for {
		for range spins {
			if p.ready() {
				return !p.closed.Load()
			}
		}
		h.parked.Store(true) // synchronizes with wakeAll: one of both sees what the other wrote
		if p.ready() && h.parked.CompareAndSwap(true, false) {
			continue // it came meanwhile and nobody has sent
		}
		<-h.wake
	}
}

func (p *pool) ready() bool { return int(uint32(p.job.Load())) < len(p.lanes) || p.closed.Load() }

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
