package tensor

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// SessionOptions configure a session; nil and the zero value are the defaults.
type SessionOptions struct {
	// Seed of the session's random numbers, below 2^53 as for Session.Seed; 0 is a seed like any other.
	Seed uint64
	// Context bounds every wait of the session. Default context.Background().
	Context context.Context
}

// Session records operations on tensors and has an Engine run them. It does no I/O until a sync point (Item, Data,
// View, Sync) or a full program.
//
// A session and its tensors are used by one goroutine at a time. Two at once are found out: the second call's result
// is an error that unwraps to ErrConcurrent. Close is the exception: any goroutine may call it.
//
// Errors that are found while recording (shapes, dtypes, released tensors) travel with the tensor they would have
// made, and the first of them sticks to the session: every sync point returns it until ClearErr. So a program can be
// written without looking at each step, and nothing computed after a mistake is mistaken for a result.
type Session struct {
	eng    Engine
	ctx    context.Context
	busy   atomic.Bool
	closed atomic.Bool
	err    error

	prog    Program
	values  []*value   // result of each instruction of prog
	inputs  []*value   // each external input of prog
	uploads []*value   // made since the last flush, their bytes in pending
	pending []Upload   // parallel to uploads
	frees   []uint64   // to be freed with the next flush
	sites   []siteMark // where the fallible instructions of prog were recorded
	epoch   uint32     // number of prog; a value's ref belongs to one epoch
	next    uint64     // id of the next flush's first value
	scalars []float64
	slots   map[scalarKey]int // scalar values of prog, by where they are used
	shapes  map[shapeKey]uint32
	inf     inference
	args    []Ref // argument list under construction
	noGrad  int
	scope   *Scope
	seed    uint64
	counter uint64 // random streams used before prog
	offset  int64  // random streams used in prog

	signal      uint16            // that what is recorded belongs to; 0 for none
	signals     []Signal          // that the session had, number n at n-1
	signalIDs   map[Signal]uint16 // their numbers
	signalSlots []uint16          // their places in prog.Signals from 1; 0 for none yet
	signalNames int               // bytes of the names in prog.Signals

	encoded []byte
	batch   Batch

	dropped struct { // ids whose handles the garbage collector found; filled by its goroutine
		sync.Mutex
		ids []uint64
	}
	stats  SessionStats
	labels []label // see Name
}

// SessionStats counts what a session did.
type SessionStats struct {
	Ops       uint64 // instructions recorded
	Programs  uint64 // programs submitted
	Uploads   uint64
	UploadedB uint64 // bytes uploaded
	Fetches   uint64 // values fetched
	Live      int    // values that exist and are not known to be dead
}

// scalarKey makes equal scalars at equal places of equal operations one: a learning rate that fifty updates share
// travels once. It is keyed by place so that two that only happen to be equal in one step stay two, which would make
// it another program.
type scalarKey struct {
	op   Op
	arg  int
	bits uint64
}

type shapeKey struct {
	rank int
	dims [MaxRank]int
}

type siteMark struct {
	instr int
	site  stack
}

// value is the result of one operation. Handles (Tensor) and graph edges point to it.
//
// refs counts the handles and scopes that keep it. At 0 it is dead: a later program frees it, or the one being
// recorded never makes it. If handles are dropped without that, the garbage collector frees it.
type value struct {
	s       *Session
	dtype   DType
	shape   Shape
	id      uint64 // once flushed
	flushed bool
	refs    int
	epoch   uint32 // epoch of ref
	ref     Ref
	scope   *Scope // which holds one of refs
	cleanup runtime.Cleanup
	tracked bool   // cleanup is set
	signal  uint16 // with which it was made or named, by its number in the session
	err     error
}

// NewSession starts a session on eng, which it owns from then on.
func NewSession(eng Engine, opts *SessionOptions) *Session {
	o := SessionOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	s := &Session{eng: eng, ctx: o.Context, epoch: 1, next: 1, slots: map[scalarKey]int{}, shapes: map[shapeKey]uint32{}}
	s.Seed(o.Seed)
	return s
}

// Engine is the engine under the session, for its name and its counters.
func (s *Session) Engine() Engine { return s.eng }

// Stats are the session's counters.
func (s *Session) Stats() SessionStats { return s.stats }

// Err is the session's first error, which every sync point returns; nil if there is none.
func (s *Session) Err() error { return s.err }

// ClearErr forgets the session's error and returns it. The session goes on; tensors that came out of an error keep it.
func (s *Session) ClearErr() error {
	err := s.err
	s.err = nil
	return err
}

// Close frees everything the session made and closes its engine. Tensors can't be used afterwards.
func (s *Session) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.busy.CompareAndSwap(false, true) { // a call under way elsewhere still uses them
		for _, u := range s.pending {
			if u.Buf != nil {
				u.Buf.Release()
			}
		}
		s.pending = nil
		s.leave()
	}
	return s.eng.Close()
}

// enter marks the session as in use; every exported call that touches it is between enter and leave.
func (s *Session) enter(what string) error {
	if s.closed.Load() {
		return fmt.Errorf("%s: session: %w", what, ErrClosed)
	}
	if !s.busy.CompareAndSwap(false, true) {
		return &OpError{Op: what, Site: callSite(), Err: ErrConcurrent}
	}
	return nil
}

func (s *Session) leave() { s.busy.Store(false) }

// fail makes err sticky and returns it.
func (s *Session) fail(err error) error {
	if s.err == nil {
		s.err = err
	}
	return err
}

// retain adds a claim on v.
func (s *Session) retain(v *value) { v.refs++ }

// release drops a claim. The last one frees the value: with the next program if it exists, else by never making it.
func (s *Session) release(v *value) {
	if v.refs--; v.refs > 0 || v.err != nil {
		return
	}
	s.stats.Live--
	if !v.flushed {
		return
	}
	if v.tracked {
		v.cleanup.Stop()
		v.tracked = false
	}
	if v.epoch == s.epoch { // an input of the program being recorded: it goes with it
		return
	}
	s.frees = append(s.frees, v.id)
}

// Sync has everything recorded so far run and waits for it. It returns the session's first error.
func (s *Session) Sync() error {
	if err := s.enter("sync"); err != nil {
		return err
	}
	defer s.leave()
	_, err := s.flush(nil, true)
	return err
}

// Flush submits what was recorded without waiting for it. It is seldom needed: sync points do it.
func (s *Session) Flush() error {
	if err := s.enter("flush"); err != nil {
		return err
	}
	defer s.leave()
	_, err := s.flush(nil, false)
	return err
}

// fetch flushes and brings v. The error is the session's sticky one, v's own, or the engine's.
func (s *Session) fetch(v *value) (Fetched, error) {
	if v.err != nil {
		return Fetched{}, v.err
	}
	if v.refs == 0 {
		return Fetched{}, s.fail(&OpError{Op: "read", Inputs: v.String(), Site: callSite(), Err: ErrReleased})
	}
	s.stats.Fetches++
	return s.flush(v, false)
}

// flush submits the recorded program. With v it also brings v.
func (s *Session) flush(v *value, sync bool) (Fetched, error) {
	b := &s.batch
	*b = Batch{Inputs: b.Inputs[:0], Frees: b.Frees[:0], Fetch: b.Fetch[:0], Uploads: b.Uploads[:0], Sync: sync, Base: s.next}
	n := uint64(len(s.values))
	s.next += n + uint64(len(s.uploads))
	for i, u := range s.uploads {
		u.id, u.flushed = b.Base+n+uint64(i), true
		s.pending[i].ID = u.id
		if u.signal > 0 {
			s.pending[i].Signal = s.signals[u.signal-1]
		}
	}
	b.Uploads = append(b.Uploads, s.pending...)
	if n > 0 {
		if e, ok := s.eng.(Expecter); ok {
			e.Expect()
		}
		s.program(b)
	}
	for _, u := range s.uploads {
		if u.refs == 0 && !(n > 0 && u.epoch == s.epoch) {
			b.Frees = append(b.Frees, u.id)
		} else if u.refs > 0 {
			s.track(u)
		}
	}
	b.Frees = append(b.Frees, s.frees...)
	s.collect(b)
	if v != nil {
		b.Fetch = append(b.Fetch, v.id)
	}
	if b.Program == nil && len(b.Uploads)+len(b.Frees)+len(b.Fetch) == 0 && !sync {
		return Fetched{}, s.err
	}
	got, err := s.eng.Submit(s.ctx, b)
	for _, u := range b.Uploads {
		if u.Buf != nil {
			u.Buf.Release()
		}
	}
	clear(b.Uploads)
	sites := s.sites
	s.startProgram()
	if err != nil {
		return Fetched{}, s.fail(s.lost(located(err, sites)))
	}
	if v == nil {
		return Fetched{}, s.err
	}
	if len(got) != 1 {
		return Fetched{}, s.fail(fmt.Errorf("tensor: engine %s returned %d values for 1", s.eng.Name(), len(got)))
	}
	if s.err != nil {
		got[0].Release()
		return Fetched{}, s.err
	}
	return got[0], nil
}

// program completes the recorded program and puts it into b.
func (s *Session) program(b *Batch) {
	p := &s.prog
	for i, v := range s.values {
		v.id, v.flushed = b.Base+uint64(i), true
		if p.Instrs[i].Keep = v.refs > 0; v.refs > 0 {
			s.track(v)
		}
	}
	for i, v := range s.inputs {
		p.Externals[i].Donated = v.refs == 0
		b.Inputs = append(b.Inputs, v.id)
	}
	p.NumScalars = len(s.scalars)
	s.encoded = p.Append(s.encoded[:0])
	b.Program, b.Encoded, b.Hash, b.Scalars = p, s.encoded, HashOf(s.encoded), s.scalars
	s.stats.Programs++
}

// startProgram begins the next epoch. The arrays are used again: the engine is done with a batch when Submit returns.
func (s *Session) startProgram() {
	clear(s.values)
	clear(s.inputs)
	clear(s.uploads)
	s.values, s.inputs, s.uploads, s.frees = s.values[:0], s.inputs[:0], s.uploads[:0], s.frees[:0]
	clear(s.pending)
	s.pending = s.pending[:0]
	s.sites = s.sites[:0]
	s.epoch++
	s.counter += uint64(s.offset)
	s.offset = 0
	s.prog.reset()
	s.scalars = s.scalars[:0]
	clear(s.slots)
	clear(s.shapes)
	clear(s.signalSlots)
	s.signalNames = 0
}

// collect frees what the garbage collector found.
func (s *Session) collect(b *Batch) {
	s.dropped.Lock()
	b.Frees = append(b.Frees, s.dropped.ids...)
	s.stats.Live -= len(s.dropped.ids)
	s.dropped.ids = s.dropped.ids[:0]
	s.dropped.Unlock()
}

// track has the garbage collector report when v can't be reached any more. It is set once v exists at the engine, so
// that what a Scope drops before costs nothing.
func (s *Session) track(v *value) {
	if v.tracked || v.err != nil {
		return
	}
	v.tracked = true
	v.cleanup = runtime.AddCleanup(v, s.drop, v.id)
}

func (s *Session) drop(id uint64) {
	s.dropped.Lock()
	s.dropped.ids = append(s.dropped.ids, id)
	s.dropped.Unlock()
}

func (v *value) String() string { return fmt.Sprintf("%v%v", v.dtype, v.shape) }
