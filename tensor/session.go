package tensor

import (
	"context"
	"fmt"
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

	rec     recording
	uploads []*value // made since the last flush
	pending []Upload // parallel to uploads, with their bytes
	frees   []uint64 // freed with the next flush
	next    uint64   // id of the first value of the next flush
	batch   Batch
	dropped garbage

	noGrad int // depth of NoGrad
	scope  *Scope
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

// NewSession starts a session on eng, which it owns from then on.
func NewSession(eng Engine, opts *SessionOptions) *Session {
	o := SessionOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	s := &Session{eng: eng, ctx: o.Context, next: 1}
	s.rec.start(s)
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
	var dropped int
	b.Frees, dropped = s.dropped.take(b.Frees)
	s.stats.Live -= dropped
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
	sites := s.rec.sites
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

// startProgram begins the next program.
func (s *Session) startProgram() {
	s.rec.next()
	clear(s.uploads)
	clear(s.pending)
	s.uploads, s.pending, s.frees = s.uploads[:0], s.pending[:0], s.frees[:0]
	s.random.nextProgram()
}
