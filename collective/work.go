package collective

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective/internal/host"
)

// Work is a call that was started and not waited for. Any goroutine may call its methods.
type Work struct {
	ctx  context.Context
	job  job
	done chan struct{}
	err  error // written before done is closed, as took is
	took time.Duration
}

// Wait returns the call's error once it is done. When ctx is done first it returns that error, and the call goes on.
func (w *Work) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return w.err
	default:
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the call is done.
func (w *Work) Done() <-chan struct{} { return w.done }

// Err is the call's error once Done is closed, and nil before.
func (w *Work) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// Took is how long the call ran, without what was ahead of it, once Done is closed, and 0 before.
func (w *Work) Took() time.Duration {
	select {
	case <-w.done:
		return w.took
	default:
		return 0
	}
}

// lane runs jobs one at a time in the order of their issue. A job that nobody is ahead of runs on the goroutine of its
// caller, which costs two atomic operations; the others wait in a queue for the lane's goroutine, which exists while there
// is a queue and ends when it has been empty.
//
// Whoever runs a job holds the lane. One word has all that a job looks at which finds the lane free, and it changes that word with one
// operation: takes the lane, and numbers its call.
//
//	63                                        2 |     1     |    0
//	calls that all ranks make, with the running | lane queue | lane held
//
// The queue's bit is set with the first job that is queued, and cleared when the goroutine has run the last: no call of a caller's own
// goroutine begins meanwhile. It changes under mu alone.
//
// One goroutine that makes brief calls again and again has a way of its own, the gate, see favor.
type lane struct {
	group *Group    // whose run it calls: directly, so that a job stays on its caller's stack
	gate  host.Gate // Before is the word

	mu    sync.Mutex
	queue []*Work
	idle  chan struct{} // one slot: the lane was given back while something was queued

	favored favored
}

const (
	laneHeld  = 1 // bit of the word
	laneQueue = 2 // bit of the word: the goroutine exists
	laneCall  = 4 // one call more in the word
)

func newLane(g *Group) *lane { return &lane{group: g, idle: make(chan struct{}, 1)} }

// held says whether a job runs.
func (l *lane) held() bool { return l.gate.Before.Load()&laneHeld != 0 || l.inside() }

// busy says whether a job runs or waits.
func (l *lane) busy() bool { return l.gate.Before.Load()&(laneHeld|laneQueue) != 0 || l.inside() }

// calls is the number of calls that all ranks make, so far: of whoever holds the lane, its own number.
func (l *lane) calls() uint64 {
	return l.gate.Before.Load()/laneCall + atomic.LoadUint64(&l.gate.Calls)
}

// step is what a job adds to the word: a pair counts for itself.
func (j *job) step() uint64 {
	if j.call.Kind.Paired() {
		return laneHeld
	}
	return laneCall | laneHeld
}

// enter takes the lane for a job that nobody is ahead of, if that is so.
func (l *lane) enter(step uint64) bool {
	s := l.gate.Before.Load()
	return s&(laneHeld|laneQueue) == 0 && l.passes() && l.gate.Before.CompareAndSwap(s, s+step)
}

// take takes the lane for the goroutine, if nobody holds it.
func (l *lane) take(step uint64) bool {
	for {
		s := l.gate.Before.Load()
		if s&laneHeld != 0 || !l.passes() {
			return false
		}
		if l.gate.Before.CompareAndSwap(s, s+step) {
			return true
		}
	}
}

// retract undoes enter.
func (l *lane) retract(step uint64) { l.give(step) }

// leave gives the lane back.
func (l *lane) leave() { l.give(laneHeld) }

// give takes from the word what frees the lane, and tells the goroutine.
func (l *lane) give(step uint64) {
	if l.gate.Before.Add(-step)&laneQueue != 0 {
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

// do runs j after everything that was started before.
func (l *lane) do(ctx context.Context, j *job) error {
	if l.enter(j.step()) {
		ended := false
		defer l.ended(&ended)
		err := l.group.run(ctx, j)
		ended = true
		l.leave()
		return err
	}
	w := l.start(ctx, j)
	<-w.done
	return w.err
}

// ended gives the lane back if the job has not ended but was left by a panic, such as a context's or a logger's.
func (l *lane) ended(did *bool) {
	if !*did {
		l.broken()
	}
}

// broken gives the lane back after a job that has left the comm in the middle of something: the group fails.
func (l *lane) broken() {
	defer l.leave()
	g := l.group
	g.stuck.Store(true)
	g.fail(&failure{Rank: g.rank, By: g.rank, err: fmt.Errorf("%w: a panic ended its call", ErrAborted)})
}

// abandon ends an express call of the caller's, which a panic has left: the caller says that it is in none. Such a call is of the opening
// that was closed last, for while it is inside the gate does not open.
func (l *lane) abandon() {
	l.close()
	f := &l.favored
	f.mu.Lock()
	defer f.mu.Unlock()
	inside := &l.gate.Inside[f.opening]
	if me := host.Goroutine(); me != 0 && f.holder == me && atomic.LoadUint64(inside) != 0 {
		atomic.StoreUint64(inside, 0)
		l.nudge()
	}
}

// start queues j.
func (l *lane) start(ctx context.Context, j *job) *Work {
	w := &Work{ctx: ctx, job: *j, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, w)
	defer l.close() // after the bit was set, and before anybody knows that the job is queued
	if l.gate.Before.Or(laneQueue)&laneQueue == 0 {
		go l.work(l.next())
	}
	return w
}

// next takes the first job from the queue, which is not empty; mu is held.
func (l *lane) next() *Work {
	w := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	return w
}

// work is the lane's goroutine, from the job that is queued first to the one that leaves the queue empty.
func (l *lane) work(w *Work) {
	for w != nil {
		for step := w.job.step(); !l.take(step); {
			<-l.idle
		}
		began := time.Now()
		w.err = l.group.run(w.ctx, &w.job)
		w.took = time.Since(began)
		done := w.done
		l.mu.Lock()
		if w = nil; len(l.queue) > 0 {
			w = l.next()
		} else {
			l.gate.Before.And(^uint64(laneQueue))
		}
		l.mu.Unlock()
		l.leave() // which wakes the goroutine that was started since, if there is one
		close(done)
	}
}

// failed is a Work that is done.
func failed(err error) *Work {
	w := &Work{done: make(chan struct{}), err: err}
	close(w.done)
	return w
}
