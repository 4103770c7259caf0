package tensor

import (
	"fmt"
	"runtime"
	"sync"
)

// value is the result of one operation. Handles (Tensor) and graph edges point to it.
//
// refs counts the handles and scopes that keep it. At 0 the value is dead: a later
// program frees it if the engine has it; otherwise the program being recorded does not
// keep it. If handles are dropped without a release, the garbage collector frees the
// value.
type value struct {
	s       *Session
	dtype   DType
	shape   Shape
	id      uint64 // valid once flushed
	flushed bool
	refs    int
	epoch   uint32 // epoch of ref
	ref     Ref
	scope   *Scope // the scope that holds one of refs
	cleanup runtime.Cleanup
	tracked bool   // cleanup is set
	signal  uint16 // number in the session of its signal
	err     error
}

// made is a new handle and its value, in one allocation.
type made struct {
	Tensor
	value
}

// poisoned returns a tensor that stands for an error.
func poisoned(s *Session, err error) *Tensor {
	m := &made{}
	m.Tensor.v = &m.value
	m.value.s, m.value.err = s, err
	return &m.Tensor
}

func (v *value) String() string { return fmt.Sprintf("%v%v", v.dtype, v.shape) }

// retain adds a reference.
func (v *value) retain() { v.refs++ }

// release drops a reference. After the last one, the next program frees the value or does
// not keep it.
func (v *value) release() {
	if v.refs--; v.refs > 0 || v.err != nil {
		return
	}
	s := v.s
	s.stats.Live--
	if !v.flushed {
		return
	}
	if v.tracked {
		v.cleanup.Stop()
		v.tracked = false
	}
	if v.epoch != s.rec.epoch { // else it is an input of the program, which frees it
		s.frees = append(s.frees, v.id)
	}
}

// track has the garbage collector add v's id to g when v cannot be reached any more. It
// is called once v exists at the engine, so values that a Scope drops before cost
// nothing.
func (v *value) track(g *garbage) {
	if v.tracked || v.err != nil {
		return
	}
	v.tracked = true
	v.cleanup = runtime.AddCleanup(v, g.add, v.id)
}

// garbage collects the ids of values that the garbage collector found. The collector's
// goroutine calls add, the session's take.
type garbage struct {
	mu  sync.Mutex
	ids []uint64
}

func (g *garbage) add(id uint64) {
	g.mu.Lock()
	g.ids = append(g.ids, id)
	g.mu.Unlock()
}

// take appends the ids to b and forgets them. It returns their number.
func (g *garbage) take(b []uint64) ([]uint64, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.ids)
	b = append(b, g.ids...)
	g.ids = g.ids[:0]
	return b, n
}
