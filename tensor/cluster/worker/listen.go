package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// listenEvery is how often the worker listens while a program runs. It bounds the time
// from the end of a client to that of its program, with the few milliseconds that a
// device needs to stop.
const listenEvery = 20 * time.Millisecond

// idleTicks is the number of ticks without a program after which the timer rests.
const idleTicks = 50

// listener has the worker hear its peers while a program runs.
//
// The state of the worker belongs to one goroutine at a time. That is the worker's own
// goroutine, except while it waits for the device or, in a collective, for other workers.
// When it has waited for a while, a timer's goroutine takes the state and reads the
// dispatcher's messages. They go to their sessions' backlogs; those that open, end and
// watch sessions are handled, except those about the session whose program runs: they
// wait in scheduler.deferred. The goroutine stops that program if the client has stopped
// it, is gone or has closed the session, or if the worker is to end; CloseSession also
// ends its wait for other workers.
//
// The worker waits twice or more in a short step, so leave and back are an atomic
// operation each: whose the state is stands in the lowest bits of turns. The worker's
// change to listenerWaits synchronizes before the timer's to listenerListens, and the
// timer's change back before the worker's to listenerWorks.
type listener struct {
	waits   *base // for whose program or collective the worker waits; nil: none
	listen  func(b *base)
	timer   *time.Timer
	turns   atomic.Uint64 // times that the worker has waited, and whose the state is
	now     uint64        // turns, as the worker's goroutine has left it
	mu      sync.Mutex    // held while the timer's goroutine listens
	ticking atomic.Bool   // the timer runs
	ended   atomic.Bool

	last uint64 // turns at the last tick
	idle int    // ticks since they changed
}

// Whose the state of the worker is.
const (
	listenerWorks   = 0 // the worker's goroutine
	listenerWaits   = 1 // of nothing: the worker's goroutine waits
	listenerListens = 2 // the timer's goroutine
	listenerTurn    = 4 // one of turns
)

// begin makes the caller the worker's goroutine. listen is called while it waits.
func (l *listener) begin(listen func(b *base)) {
	l.listen = listen
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
}

// end ends listening.
func (l *listener) end() {
	l.ended.Store(true)
	l.timer.Stop()
}

// leave is called before the worker waits, and back after it. Both do nothing in a
// session that no worker serves, as tests make them.
func (l *listener) leave(b *base) {
	if l.listen == nil {
		return
	}
	l.waits = b
	l.now += listenerWaits
	l.turns.Store(l.now)
	if !l.ticking.Load() && l.ticking.CompareAndSwap(false, true) {
		l.timer.Reset(listenEvery)
	}
}

func (l *listener) back() {
	if l.listen == nil {
		return
	}
	next := l.now - listenerWaits + listenerWorks + listenerTurn
	if !l.turns.CompareAndSwap(l.now, next) {
		l.mu.Lock()
		l.turns.Store(next)
		l.mu.Unlock()
	}
	l.now, l.waits = next, nil
}

// tick listens if the worker has been in one wait since the last tick, and rests if there
// were none for a while.
func (l *listener) tick() {
	now := l.turns.Load()
	switch {
	case l.ended.Load():
		return
	case now != l.last:
		l.idle = 0
	case now%listenerTurn == listenerWaits:
		l.mu.Lock()
		if listens := now - listenerWaits + listenerListens; l.turns.CompareAndSwap(now, listens) {
			l.listen(l.waits)
			l.turns.Store(now)
		}
		l.mu.Unlock()
	default:
		l.idle++
	}
	l.last = now
	if l.idle > idleTicks {
		l.idle = 0
		// The worker stores turns before it loads ticking, and this goroutine stores
		// ticking before it loads turns: one of them sees the other's store, so that no
		// program runs without a timer.
		l.ticking.Store(false)
		if l.turns.Load() == now || !l.ticking.CompareAndSwap(false, true) {
			return
		}
	}
	l.timer.Reset(listenEvery)
}

// stops says which programs of a session are to end before their time.
type stops struct {
	flag   *atomic.Bool       // of the programs since the last stop: they are to end
	over   bool               // they are, and every later one
	before uint64             // Runs with lower numbers are to end
	seq    uint64             // number of the Run that is handled
	leave  context.CancelFunc // ends waits for the session's other workers
}

// begin is called before the programs of a Run. A program of an earlier Run that was
// stopped may not have ended yet, so its flag stays set.
func (s *stops) begin(seq uint64) {
	s.seq = seq
	if stop := s.over || seq < s.before; stop {
		s.flag.Store(true)
	} else if s.flag.Load() {
		s.flag = new(atomic.Bool)
	}
}

// to stops the Runs up to number seq, and no later one: once a later one has begun, it
// does nothing.
func (s *stops) to(seq uint64) {
	s.before = max(s.before, seq+1)
	if s.seq < s.before {
		s.flag.Store(true)
	}
}

// end stops all Runs.
func (s *stops) end() {
	s.over = true
	s.flag.Store(true)
}

// attended is a space whose programs let the worker listen while they run. All of them
// end when the session's stop flag is set.
type attended struct {
	device.Space
	b *base
}

// late is an attended space whose programs may run after Run has returned: its other
// calls that wait for them let the worker listen as well.
type late struct{ attended }

// attend returns space, of a session on d, as one that lets the worker listen.
func attend(d device.Device, space device.Space, b *base) device.Space {
	a := attended{space, b}
	if _, ok := d.(device.Prompt); ok {
		return &a
	}
	return &late{a}
}

func (a *attended) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, _ *atomic.Bool) error {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Run(p, base, inputs, scalars, a.b.stops.flag)
}

func (a *late) Sync() error {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Sync()
}

func (a *late) Host(ids ...uint64) ([]*shm.Block, error) {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Host(ids...)
}

func (a *late) Read(id uint64, off, n int) ([]byte, error) {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Read(id, off, n)
}

// call carries out a call of a collective, and lets the worker listen meanwhile.
func (b *base) call(ctx context.Context, r *collective.Raw, g *collective.Group) error {
	b.listener.leave(b)
	defer b.listener.back()
	return r.Do(ctx, g)
}

// finish waits until done is closed at the end of a collective, and lets the worker
// listen meanwhile.
func (b *base) finish(done <-chan struct{}) {
	select {
	case <-done:
		return
	default:
	}
	b.listener.leave(b)
	defer b.listener.back()
	<-done
}

// listenFor listens while the worker waits for a program of session b.
func (w *Worker) listenFor(ctx context.Context, b *base) {
	if ctx.Err() != nil || errors.Is(w.lost, ErrDispatcher) || w.seeker.unheard(b) {
		b.stops.end()
	}
	if !w.told.Busy {
		w.tellBusy()
	}
	for n := 0; n < maxSorted && len(w.deferred) < maxSorted && w.lost == nil; n++ {
		m, ok, err := w.seeker.hear()
		if !ok || err != nil {
			w.lost = err
			return
		}
		if id, _ := wire.Session(m.Body); id == b.id && atOnce(&m) && m.Kind != wire.KindStop {
			// The session is in the middle of a message.
			if m.Kind == wire.KindCloseSession {
				b.stops.end()
				b.stops.leave()
			}
			w.deferred = append(w.deferred, ipc.Message{Kind: m.Kind, Body: slices.Clone(m.Body), Files: m.Files})
		} else {
			err = w.sort(ctx, &m)
			ipc.CloseFiles(m.Files)
		}
		w.out.conn.Release()
		if err != nil {
			w.lost = err
			return
		}
	}
}
