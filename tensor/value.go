package tensor

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// value is the result of one operation. Handles (Tensor) and graph edges point to it. The
// first handle is in it, which saves an allocation.
//
// refs counts the handles and scopes that keep it. At 0 the value is dead: a later
// program frees it if the engine has it; otherwise the program being recorded does not
// keep it. If handles are dropped without a release, the garbage collector frees the
// value.
//
// Every operation allocates one. The small fields stand together, so that they are not
// padded to a word each.
type value struct {
	handle  Tensor
	s       *Session
	*sized  // its shape
	dtype   DType
	flushed bool
	tracked bool   // counted by garbage
	signal  uint16 // number in the session of its signal
	refs    int32
	id      uint64 // valid once flushed
	epoch   uint32 // epoch of ref
	ref     Ref
	scope   *Scope // the scope that holds one of refs
	more    *more  // most values have none
	err     error
}

// more is the fields that only few values need.
type more struct {
	cleanup runtime.Cleanup // set by garbage.settle
	site    *stack          // where it was recorded, if it is large
}

// and returns v.more, and makes it if there is none.
func (v *value) and() *more {
	if v.more == nil {
		v.more = &more{}
	}
	return v.more
}

// newValue returns a value with one reference and its first handle.
func newValue(s *Session, d DType, shape *sized) *value {
	return (&value{}).start(s, d, shape)
}

// start makes v, which must be zero, such a value.
func (v *value) start(s *Session, d DType, shape *sized) *value {
	v.s, v.sized, v.dtype, v.refs = s, shape, d, 1
	v.handle.v = v
	return v
}

// poisoned returns a tensor that stands for an error.
func poisoned(s *Session, err error) *Tensor {
	v := newValue(s, Invalid, unsized)
	v.refs, v.err = 0, err
	return &v.handle
}

// poison returns a tensor that stands for the error of t, also when t gets a value.
func (t *Tensor) poison() *Tensor { return poisoned(t.v.s, t.v.err) }

func (v *value) String() string { return fmt.Sprintf("%v%v", v.dtype, v.shape) }

// retain adds a reference.
func (v *value) retain() { v.refs++ }

// release drops a reference. After the last one, the next program frees the value or does
// not keep it.
func (v *value) release() {
	if v.refs--; v.refs > 0 {
		return
	}
	s := v.s
	s.stats.Live--
	if !v.flushed {
		return
	}
	v.untrack(&s.dropped)
	if v.epoch != s.rec.epoch { // else it is an input of the program, which frees it
		s.frees = append(s.frees, v.id)
	}
}

// track has g count v, which exists at the engine from now on, and find it once it cannot
// be reached any more.
func (v *value) track(g *garbage) {
	if v.tracked || v.err != nil {
		return
	}
	v.tracked = true
	g.live += v.bytes()
	g.fresh = append(g.fresh, v)
}

// untrack undoes track for a value that is released.
func (v *value) untrack(g *garbage) {
	if v.tracked {
		if v.tracked = false; v.more != nil {
			v.more.cleanup.Stop() // nothing happens if settle has not seen v
		}
		g.live -= v.bytes()
	}
}

// bytes returns the size of v at the engine.
func (v *value) bytes() int { return v.elems * v.dtype.Size() }

// collectAt is the least number of bytes for which garbage runs the collector, unless the
// engine has little memory.
const collectAt = 64 << 20

// garbage collects the values that the garbage collector found, and runs the collector
// for them: Go does not see the memory of the engine, so a program that drops tensors
// without Scope or Free would grow until something else started it. The collector's
// goroutine calls dropped.add, the session's all else.
//
// The cleanup by which the collector tells of a value costs as much as recording it, and
// most values are released before the next program: a step replaces its parameters, a
// loop frees its results. So the values of the last program are fresh: they are held
// here, where the collector cannot find them. The next flush gives a cleanup to those
// that were not released, and holds them no longer.
type garbage struct {
	live  int      // bytes of the tracked values that are not known to be dead
	at    int      // the collector runs when live is that much; 0: not known yet
	most  int      // what the session may hold; 0: not known
	fresh []*value // tracked values that have no cleanup yet, and released ones

	mu     sync.Mutex
	values []dropped
}

// dropped is a value that cannot be reached any more. It names its garbage, so that add
// is a cleanup without a closure, which every operation would allocate.
type dropped struct {
	to    *garbage
	id    uint64
	bytes int
}

func (d dropped) add() {
	d.to.mu.Lock()
	d.to.values = append(d.to.values, d)
	d.to.mu.Unlock()
}

// settle gives cleanups to the fresh values that have not been released.
func (g *garbage) settle() {
	for _, v := range g.fresh {
		if v.tracked {
			v.and().cleanup = runtime.AddCleanup(v, dropped.add, dropped{g, v.id, v.bytes()})
		}
	}
	clear(g.fresh)
	g.fresh = g.fresh[:0]
}

// take appends the ids of the values to b and forgets them. It returns their number.
func (g *garbage) take(b []uint64) ([]uint64, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.values)
	for _, d := range g.values {
		b = append(b, d.id)
		g.live -= d.bytes
	}
	g.values = g.values[:0]
	if n > 0 {
		g.at = g.next()
	}
	return b, n
}

// leastGrowth is for how many bytes more the collector runs at least.
const leastGrowth = 4 << 20

// next returns for how many live bytes the collector runs: twice those that live now, but
// at most a quarter of what the session may hold more than now.
func (g *garbage) next() int {
	at := max(2*g.live, collectAt)
	if g.most > 0 {
		at = min(at, g.live+max(g.most/4, leastGrowth))
	}
	return at
}

// collect runs the collector if the bytes of tracked values have grown enough since the
// last time.
func (g *garbage) collect() {
	if g.at == 0 {
		g.at = min(collectAt, g.next())
	}
	if g.live >= g.at {
		g.at = g.next() // until take knows what it found
		g.find()
	}
}

// cleanupsEnd bounds the wait for the cleanups of a collection: those of the program may
// be slow.
const cleanupsEnd = time.Second

// find runs the collector and waits until the cleanups of values that were unreachable
// have run, fresh ones too. They may overtake each other within one collection, so it
// waits for a cleanup of a second one.
func (g *garbage) find() {
	g.settle()
	for range 2 {
		ran := cleanupRan()
		runtime.GC()
		select {
		case <-ran:
		case <-time.After(cleanupsEnd):
			return
		}
	}
}

// cleanupRan returns a channel that is closed by a cleanup of the next collection.
//
//go:noinline
func cleanupRan() <-chan struct{} {
	ran := make(chan struct{})
	runtime.AddCleanup(&dropped{}, func(c chan struct{}) { close(c) }, ran)
	return ran
}
