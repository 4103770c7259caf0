package collective

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
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
// Whoever runs a job holds the lane, by bit 0 of state; the bits above count the calls that all ranks make, the running one
// included, so that taking the lane and numbering a call is one operation. queued counts jobs in the queue and the one that the
// goroutine runs. A direct call takes the lane before it looks at queued, the goroutine raises queued before it looks at the lane: one
// sees the other.
type lane struct {
	group  *Group // whose run it calls: directly, so that a job stays on its caller's stack
	state  atomic.Uint64
	queued atomic.Int32

	mu      sync.Mutex
	queue   []*Work
	running bool          // the goroutine exists
	idle    chan struct{} // one slot: the lane was given back while something was queued
}

const (
	laneHeld = 1 // bit of state
	laneCall = 2 // one call more in state
)

func newLane(g *Group) *lane { return &lane{group: g, idle: make(chan struct{}, 1)} }

// held says whether a job runs.
func (l *lane) held() bool { return l.state.Load()&laneHeld != 0 }

// calls is the number of calls that all ranks make, so far: of whoever holds the lane, its own number.
func (l *lane) calls() uint64 { return l.state.Load() / laneCall }

// step is what a job adds to state: a pair counts for itself.
func (j *job) step() uint64 {
	if j.call.Kind.Paired() {
		return laneHeld
	}
	return laneCall | laneHeld
}

// take takes the lane if nobody holds it.
func (l *lane) take(step uint64) bool {
	s := l.state.Load()
	return s&laneHeld == 0 && l.state.CompareAndSwap(s, s+step)
}

// enter takes the lane for a job that nobody is ahead of, if that is so.
func (l *lane) enter(step uint64) bool {
	return l.take(step) && (l.queued.Load() == 0 || l.retract(step))
}

// retract undoes enter, and says false.
func (l *lane) retract(step uint64) bool {
	l.state.Add(-step)
	l.nudge()
	return false
}

// leave gives the lane back.
func (l *lane) leave() {
	l.state.Store(l.state.Load() - laneHeld)
	l.nudge()
}

// nudge tells the goroutine that the lane was given back.
func (l *lane) nudge() {
	if l.queued.Load() > 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
}

// do runs j after everything that was started before.
func (l *lane) do(ctx context.Context, j *job) error {
	if l.enter(j.step()) {
		err := l.group.run(ctx, j)
		l.leave()
		return err
	}
	w := l.start(ctx, j)
	<-w.done
	return w.err
}

// start queues j.
func (l *lane) start(ctx context.Context, j *job) *Work {
	w := &Work{ctx: ctx, job: *j, done: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, w)
	l.queued.Add(1)
	if !l.running {
		l.running = true
		go l.work()
	}
	return w
}

// work is the lane's goroutine.
func (l *lane) work() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		w := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.mu.Unlock()

		for step := w.job.step(); !l.take(step); {
			<-l.idle
		}
		began := time.Now()
		w.err = l.group.run(w.ctx, &w.job)
		w.took = time.Since(began)
		l.state.Store(l.state.Load() - laneHeld)
		l.queued.Add(-1)
		close(w.done)
	}
}

// failed is a Work that is done.
func failed(err error) *Work {
	w := &Work{done: make(chan struct{}), err: err}
	close(w.done)
	return w
}
