package collective

import (
	"context"
	"sync"
	"sync/atomic"
)

// Work is a call that was started and not waited for. Any goroutine may call its methods.
type Work struct {
	ctx  context.Context
	job  job
	done chan struct{}
	err  error // written before done is closed
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

// lane runs jobs one at a time in the order of their issue. A job that nobody is ahead of runs on the goroutine of its
// caller, which costs two atomic operations; the others wait in a queue for the lane's goroutine, which exists while there
// is a queue and ends when it has been empty.
//
// busy is 1 while a job runs, by whoever set it. queued counts jobs in the queue and the one that the goroutine runs. A
// direct call sets busy before it looks at queued, the goroutine raises queued before it looks at busy: one sees the other.
type lane struct {
	group  *Group // whose run it calls: directly, so that a job stays on its caller's stack
	busy   atomic.Int32
	queued atomic.Int32

	mu      sync.Mutex
	queue   []*Work
	running bool          // the goroutine exists
	idle    chan struct{} // one slot: busy was given back while something was queued
}

func newLane(g *Group) *lane { return &lane{group: g, idle: make(chan struct{}, 1)} }

// do runs j after everything that was started before.
func (l *lane) do(ctx context.Context, j *job) error {
	if l.queued.Load() == 0 && l.busy.CompareAndSwap(0, 1) {
		if l.queued.Load() == 0 {
			err := l.group.run(ctx, j)
			l.release()
			return err
		}
		l.release()
	}
	w := l.start(ctx, j)
	<-w.done
	return w.err
}

func (l *lane) release() {
	l.busy.Store(0)
	if l.queued.Load() > 0 {
		select {
		case l.idle <- struct{}{}:
		default:
		}
	}
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

		for !l.busy.CompareAndSwap(0, 1) {
			<-l.idle
		}
		w.err = l.group.run(w.ctx, &w.job)
		l.busy.Store(0)
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
