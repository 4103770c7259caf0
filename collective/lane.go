package collective

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
)

// lane runs calls one at a time in the order of their issue. A call with none ahead of it
// runs on the goroutine of its caller, at the price of two atomic operations. The others
// wait in a queue for the lane's goroutine, which exists while there is a queue.
//
// The goroutine that runs a call holds the lane. One word has everything that a caller
// must look at, and it takes the lane and numbers its call by one compare-and-swap:
//
//	63                                        2 |     1     |    0
//	calls that all ranks make, with the running | lane queue | lane held
//
// The queue's bit is set with the first call that is queued, and cleared when the
// goroutine has run the last: no call of a caller's own goroutine begins meanwhile. It
// changes under mu alone.
type lane struct {
	// whose run it calls: directly, so that a request stays on its caller's stack
	group *Group
	word  atomic.Uint64

	mu    sync.Mutex
	queue []*Work
	idle  chan struct{} // one slot: the lane was given back while something was queued
}

const (
	laneHeld  = 1 // bit of the word
	laneQueue = 2 // bit of the word: the goroutine exists
	laneCall  = 4 // one call more in the word
)

// newLane returns a lane that is free.
func newLane(g *Group) *lane { return &lane{group: g, idle: make(chan struct{}, 1)} }

// held reports whether a call runs.
func (l *lane) held() bool { return l.word.Load()&laneHeld != 0 }

// busy reports whether a call runs or waits.
func (l *lane) busy() bool { return l.word.Load()&(laneHeld|laneQueue) != 0 }

// calls returns the number of calls of all ranks so far. The holder of the lane is in the
// last.
func (l *lane) calls() uint64 { return l.word.Load() / laneCall }

// step returns what a call adds to the word: sends and receives count for themselves.
func step(r *protocol.Request) uint64 {
	if r.Call.Kind.Paired() {
		return laneHeld
	}
	return laneCall | laneHeld
}

// enter takes the lane for a call if it is free and nothing is queued.
func (l *lane) enter(step uint64) bool {
	s := l.word.Load()
	return s&(laneHeld|laneQueue) == 0 && l.word.CompareAndSwap(s, s+step)
}

// take takes the lane for the goroutine, if it is free.
func (l *lane) take(step uint64) bool {
	for {
		s := l.word.Load()
		if s&laneHeld != 0 {
			return false
		}
		if l.word.CompareAndSwap(s, s+step) {
			return true
		}
	}
}

// leave gives the lane back, and wakes the goroutine if there is one.
func (l *lane) leave() {
	if l.word.Add(^uint64(laneHeld-1))&laneQueue != 0 {
		l.nudge()
	}
}

// nudge has the goroutine look at the lane again.
//
//go:noinline
func (l *lane) nudge() {
	select {
	case l.idle <- struct{}{}:
	default:
	}
}

// do runs r after everything that was started before.
func (l *lane) do(ctx context.Context, r *protocol.Request) error {
	over := ctx.Err() // before the lane is taken: a nil context panics here
	if l.enter(step(r)) {
		ended := false
		defer l.ended(&ended)
		err := l.group.run(ctx, r, over)
		ended = true
		return err
	}
	w := l.start(ctx, r)
	<-w.done
	return w.err
}

// first runs r, which Init makes before the caller has the group, without counting it.
func (l *lane) first(ctx context.Context, r *protocol.Request) error {
	over := ctx.Err()
	l.enter(laneHeld)
	ended := false
	defer l.ended(&ended)
	err := l.group.run(ctx, r, over)
	ended = true
	return err
}

// ended gives the lane back. A call that has not ended was left by a panic, such as a
// context's or a logger's, in the middle of something: the group fails.
func (l *lane) ended(did *bool) {
	if !*did {
		g := l.group
		g.stuck.Store(true)
		g.fail(&failure{Rank: g.rank, By: g.rank, err: fmt.Errorf("%w: a panic ended its call", ErrAborted)})
	}
	l.leave()
}

// start queues r.
func (l *lane) start(ctx context.Context, r *protocol.Request) *Work {
	w := &Work{ctx: ctx, request: *r, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, w)
	if l.word.Or(laneQueue)&laneQueue == 0 {
		go l.work(l.next())
	}
	return w
}

// next takes the first call from the queue, which is not empty; mu is held.
func (l *lane) next() *Work {
	w := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	return w
}

// work is the lane's goroutine, from the first queued call to the one that leaves the
// queue empty.
func (l *lane) work(w *Work) {
	for w != nil {
		for step := step(&w.request); !l.take(step); {
			<-l.idle
		}
		began := time.Now()
		w.err = l.group.run(w.ctx, &w.request, w.ctx.Err())
		w.took = time.Since(began)
		done := w.done
		l.mu.Lock()
		if w = nil; len(l.queue) > 0 {
			w = l.next()
		} else {
			l.word.And(^uint64(laneQueue))
		}
		l.mu.Unlock()
		l.leave() // which wakes the goroutine that was started since, if there is one
		close(done)
	}
}

// drain waits until no call runs or is queued.
func (l *lane) drain() {
	for l.busy() {
		time.Sleep(pollEvery)
	}
}
