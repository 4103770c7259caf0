package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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
// The state of the worker belongs to one goroutine at a time: the one that holds mu. That
// is the worker's own goroutine, except while it waits for the device. When a program has
// run for a while, a timer's goroutine takes mu and reads the dispatcher's messages. They
// go to their sessions' backlogs; those that open, end and watch sessions are handled. It
// sets the stop flag of the session whose program runs if its client is gone or has
// closed it, or if the worker is to end.
type listener struct {
	mu      sync.Mutex
	waits   *base // whose calls the worker waits for; nil: none
	listen  func(b *base)
	timer   *time.Timer
	turns   atomic.Uint64 // odd while the worker waits for the device
	ticking atomic.Bool   // the timer runs
	ended   atomic.Bool

	last uint64 // turns at the last tick
	idle int    // ticks since they changed
}

// begin makes the caller the worker's goroutine. listen is called while it waits for the
// device.
func (l *listener) begin(listen func(b *base)) {
	l.mu.Lock()
	l.listen = listen
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
}

// end ends listening.
func (l *listener) end() {
	l.ended.Store(true)
	l.timer.Stop()
	l.mu.Unlock()
}

// leave is called before the worker waits for the device, and back after it. Both do
// nothing in a session that no worker serves, as tests make them.
func (l *listener) leave(b *base) {
	if l.listen == nil {
		return
	}
	l.waits = b
	l.turns.Add(1)
	if !l.ticking.Load() && l.ticking.CompareAndSwap(false, true) {
		l.timer.Reset(listenEvery)
	}
	l.mu.Unlock()
}

func (l *listener) back() {
	if l.listen == nil {
		return
	}
	l.mu.Lock()
	l.turns.Add(1)
	l.waits = nil
}

// tick listens if the worker has waited for one call of the device since the last tick,
// and rests if there were no programs for a while.
func (l *listener) tick() {
	now := l.turns.Load()
	switch {
	case l.ended.Load():
		return
	case now != l.last:
		l.idle = 0
	case now%2 == 1:
		if l.mu.TryLock() {
			if b := l.waits; b != nil {
				l.listen(b)
			}
			l.mu.Unlock()
		}
	default:
		l.idle++
	}
	l.last = now
	if l.idle > idleTicks {
		l.idle = 0
		// The worker adds to turns before it loads ticking, and this goroutine stores
		// ticking before it loads turns: one of them sees the other's store, so that no
		// program runs without a timer.
		l.ticking.Store(false)
		if l.turns.Load() == now || !l.ticking.CompareAndSwap(false, true) {
			return
		}
	}
	l.timer.Reset(listenEvery)
}

// attended is a space whose calls that may wait for programs let the worker listen. All
// of its programs end when the session's stop flag is set.
type attended struct {
	device.Space
	b *base
}

func (a *attended) Run(p device.Program, base uint64, inputs []uint64, scalars []float64, _ *atomic.Bool) error {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Run(p, base, inputs, scalars, &a.b.stop)
}

func (a *attended) Sync() error {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Sync()
}

func (a *attended) Host(ids ...uint64) ([]*shm.Block, error) {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Host(ids...)
}

func (a *attended) Read(id uint64, off, n int) ([]byte, error) {
	a.b.listener.leave(a.b)
	defer a.b.listener.back()
	return a.Space.Read(id, off, n)
}

// listenFor listens while the worker waits for a program of session b.
func (w *Worker) listenFor(ctx context.Context, b *base) {
	if s, ok := w.sessions[b.id].(connected); ok && s.inlet().conn != nil && s.inlet().conn.Err() != nil {
		b.stop.Store(true)
	}
	if ctx.Err() != nil || w.out.conn.Err() != nil {
		b.stop.Store(true)
	}
	for n := 0; n < maxSorted && !w.held && !w.sorting && w.lost == nil; n++ {
		m, ok, err := w.out.conn.TryRecv()
		if !ok || err != nil {
			w.lost = err
			return
		}
		if id, _ := wire.Session(m.Body); id == b.id {
			switch m.Kind {
			case wire.KindCloseSession, wire.KindMeet, wire.KindLink, wire.KindTurn:
				// The worker's goroutine handles it, because the session is in the middle
				// of a message.
				w.msg, w.held = m, true
				if m.Kind == wire.KindCloseSession {
					b.stop.Store(true)
				}
				return
			}
		}
		err = w.sort(ctx, &m)
		ipc.CloseFiles(m.Files)
		w.out.conn.Release()
		if err != nil {
			w.lost = err
			return
		}
	}
}
