package tensor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// SessionOptions configure a session; nil and the zero value are the defaults.
type SessionOptions struct {
	// Seed is the seed of the session's random numbers, below 2^53, as for Session.Seed.
	// 0 is a seed like any other.
	Seed uint64
	// Context bounds every wait of the session. The default is context.Background().
	Context context.Context
	// Batch is the number of operations after which the session submits what it has
	// recorded, without waiting for it. 0 is 4096. A small one has the engine begin
	// earlier, at the price of more messages and of values that are kept although only
	// operations of the next batch need them.
	Batch int
	// Unfused has engines run one operation after another, instead of compiling several
	// into one pass over memory: slower, with some results in other bits. It is for
	// looking for an error. A config does so for the programs that have a signal, see
	// tensor/shard/config.
	Unfused bool
	// Site returns the file and line that a call comes from, for errors. It is called in
	// the goroutine of the call. The default is the line of Go outside of these packages;
	// clients in other languages have their own.
	Site func() string
}

// Session records operations on tensors and has an Engine run them. It does no I/O until
// a sync point (Item, Data, View, Sync) or a full program.
//
// A session and its tensors must be used by one goroutine at a time. The session detects
// concurrent use: the second call returns an error that unwraps to ErrConcurrent. Close
// is an exception, which any goroutine may call.
//
// An error that is found while recording (shape, dtype, a released tensor) is the error
// of the tensor that the operation returns. The first error also sticks to the session:
// every sync point returns it until ClearErr. So a caller need not check each operation,
// and no result computed from an error is taken for a value.
type Session struct {
	eng    Engine
	ctx    context.Context
	site   func() string // see SessionOptions.Site; or nil
	busy   atomic.Bool
	closed atomic.Bool
	err    error

	rec     recording
	uploads []*value // made since the last flush
	pending []Upload // parallel to uploads, with their bytes
	frees   []uint64 // freed with the next flush
	next    uint64   // id of the first value of the next flush
	batch   Batch
	dropped garbage
	large   largeValues
	settled bool // the engine has told of all programs submitted before

	failures failures

	noGrad int // depth of NoGrad
	scope  *Scope
	lists  [][]*value // empty, of scopes that have ended
	random streams
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

// NewSession starts a session on eng. The session owns eng and closes it.
func NewSession(eng Engine, opts *SessionOptions) *Session {
	o := *cmp.Or(opts, &SessionOptions{})
	s := &Session{eng: eng, ctx: cmp.Or(o.Context, context.Background()), site: o.Site, next: 1, settled: true}
	if e, ok := eng.(Bounded); ok {
		s.dropped.most = int(min(e.MaxBytes(), math.MaxInt))
	}
	s.rec.start(s, &o)
	s.Seed(o.Seed)
	return s
}

// Engine returns the session's engine, for its name and its counters.
func (s *Session) Engine() Engine { return s.eng }

// Stats returns the session's counters.
func (s *Session) Stats() SessionStats { return s.stats }

// Err returns the session's first error, which every sync point returns, or nil.
func (s *Session) Err() error { return s.err }

// ClearErr forgets the session's error and returns it. The session goes on; tensors that
// stand for an error keep it.
func (s *Session) ClearErr() error {
	err := s.err
	s.err = nil
	return err
}

// Close frees all values of the session and closes its engine. Its tensors can't be used
// afterwards.
func (s *Session) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.busy.CompareAndSwap(false, true) { // else a call in another goroutine uses them
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

// enter marks the session as in use. Every exported method that uses it runs between
// enter and leave.
func (s *Session) enter(what string) error {
	if s == nil {
		return &OpError{Op: what, Site: callSite(), Err: ErrNil}
	}
	if s.closed.Load() {
		return fmt.Errorf("%s: session: %w", what, ErrClosed)
	}
	if !s.busy.CompareAndSwap(false, true) {
		return &OpError{Op: what, Site: callSite(), Err: ErrConcurrent}
	}
	return nil
}

func (s *Session) leave() { s.busy.Store(false) }

// fail makes err, which is found while recording, sticky if it is the first error, and
// returns it.
func (s *Session) fail(err error) error {
	if e, ok := err.(*OpError); ok && s.site != nil {
		e.Site = s.site()
	}
	return stick(s, err)
}

// stick makes err the error of s if it is the first, and returns it.
func stick(s *Session, err error) error {
	if s.err == nil {
		s.err = err
	}
	return err
}

// Sync runs everything recorded so far and waits for it. It returns the session's first
// error.
func (s *Session) Sync() error { return s.flushNow("sync", true) }

// Flush submits everything recorded without waiting for it. Sync points flush by
// themselves. A loop that reads its loss only now and then calls it after every step, so
// that a worker runs the step while the next one is recorded, and every step is the same
// program.
func (s *Session) Flush() error { return s.flushNow("flush", false) }

func (s *Session) flushNow(what string, sync bool) error {
	if err := s.enter(what); err != nil {
		return err
	}
	defer s.leave()
	_, err := s.flush(nil, sync)
	return err
}

// fetch flushes and returns v. The error is the session's sticky one, v's own, or the
// engine's.
func (s *Session) fetch(v *value) (Fetched, error) {
	if err := v.failed(); err != nil {
		return Fetched{}, err
	}
	if v.refs == 0 {
		return Fetched{}, s.fail(&OpError{Op: "read", Inputs: v.String(), Site: callSite(), Err: ErrReleased})
	}
	s.stats.Fetches++
	return s.flush(v, false)
}

// flush submits the recorded program and, if v is not nil, fetches v.
func (s *Session) flush(v *value, sync bool) (Fetched, error) {
	s.dropped.settle()
	b := &s.batch
	*b = Batch{Inputs: b.Inputs[:0], Frees: b.Frees[:0], Fetch: b.Fetch[:0], Uploads: b.Uploads[:0], Sync: sync, Base: s.next}
	n := uint64(len(s.rec.values))
	s.next += n + uint64(len(s.uploads))
	for i, u := range s.uploads {
		u.id, u.flushed = b.Base+n+uint64(i), true
		s.pending[i].ID = u.id
		if u.signal > 0 {
			s.pending[i].Signal = s.rec.signals.all[u.signal-1]
		}
	}
	b.Uploads = append(b.Uploads, s.pending...)
	if n > 0 {
		if e, ok := s.eng.(Expecter); ok {
			e.Expect()
		}
		s.rec.finish(b, &s.dropped)
		s.stats.Programs++
	}
	for _, u := range s.uploads {
		if u.refs == 0 && !(n > 0 && u.epoch == s.rec.epoch) {
			b.Frees = append(b.Frees, u.id)
		} else if u.refs > 0 {
			u.track(&s.dropped)
		}
	}
	b.Frees = append(b.Frees, s.frees...)
	s.dropped.collect()
	var dropped int
	b.Frees, dropped = s.dropped.take(b.Frees)
	s.stats.Live -= dropped
	s.failures.forget(b.Frees)
	if v != nil {
		b.Fetch = append(b.Fetch, v.id)
	}
	if b.Program == nil && len(b.Uploads)+len(b.Frees)+len(b.Fetch) == 0 && !sync {
		return Fetched{}, s.err
	}
	got, err := s.eng.Submit(s.ctx, b)
	if errors.Is(err, ErrNoSpace) && s.reclaim(b) {
		again := *b
		again.Frees = nil // done when it failed
		got, err = s.eng.Submit(s.ctx, &again)
	}
	told := sync || v != nil
	s.settled = told
	if err == nil {
		s.failures.taken(b, s.rec.sites, told)
	} else if !errors.Is(err, ErrLost) {
		err = s.failures.failed(b, s.rec.sites, err, s.next)
	}
	for _, u := range b.Uploads {
		if u.Buf != nil {
			u.Buf.Release()
		}
	}
	clear(b.Uploads)
	s.startProgram()
	if err != nil {
		if errors.Is(err, ErrNoSpace) {
			err = s.large.explain(err, s.stats.Live)
		}
		_ = stick(s, s.lost(err)) // an earlier error is the cause of this one
		return Fetched{}, s.err
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

// startProgram begins the next program.
func (s *Session) startProgram() {
	s.rec.next()
	clear(s.uploads)
	clear(s.pending)
	s.uploads, s.pending, s.frees = s.uploads[:0], s.pending[:0], s.frees[:0]
	s.random.nextProgram()
}
