package dispatcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// A worker that is asked to open a session says something about it soon: SessionOpened,
// Fail, or the Meet or Link by which connections are made. One that says nothing within
// Options.AnswerWait hangs or is stopped. It gets no sessions until it is heard again,
// and those that it was to open go to other workers. Workers answer in the order in which
// they are asked: where many sessions open at once the last waits for longer than that,
// while its worker answers the others.

// opening is a session that a worker was asked to open.
type opening struct {
	session *session
	id      uint64 // of the session then
	worker  *peer
	until   time.Time
}

// silence finds the workers that do not answer.
type silence struct {
	d        *Dispatcher
	openings []opening // that workers were asked for, oldest first

	timer *time.Timer // wakes the dispatcher at due, where it runs
	due   time.Time   // when the oldest opening is late
}

// ask notes that the workers of a session are asked to open it.
func (x *silence) ask(s *session) {
	d := x.d
	until := time.Now().Add(d.o.AnswerWait)
	for _, w := range s.workers {
		x.openings = append(x.openings, opening{s, s.id, w, until})
	}
	s.unheard = slices.Clone(s.workers)
}

// hear notes that a worker has said something about a session.
func (s *session) hear(w *peer) {
	if i := slices.Index(s.unheard, w); i >= 0 {
		s.unheard = slices.Delete(s.unheard, i, i+1)
		w.answered = time.Now()
	}
}

// later puts off an opening whose worker has answered others since.
func (x *silence) later(o opening, until time.Time) {
	o.until = until
	i, _ := slices.BinarySearchFunc(x.openings, until, func(o opening, t time.Time) int {
		if o.until.After(t) {
			return 1
		}
		return -1
	})
	x.openings = slices.Insert(x.openings, i, o)
}

// passOver finds the workers that have not answered in time, and has the dispatcher woken
// when the next may be late.
func (x *silence) passOver(now time.Time) (worked bool) {
	defer x.wake(now)
	for d := x.d; len(x.openings) > 0; {
		o := x.openings[0]
		s := o.session
		waits := !s.over && s.id == o.id && slices.Contains(s.unheard, o.worker)
		if waits && now.Before(o.until) {
			break
		}
		x.openings[0] = opening{}
		x.openings = x.openings[1:]
		if !waits || o.worker.gone {
			continue
		}
		worked = true
		if until := o.worker.answered.Add(d.o.AnswerWait); now.Before(until) {
			x.later(o, until)
			continue
		}
		if !o.worker.silent {
			o.worker.silent = true
			d.log.Warn("worker does not answer", "worker", o.worker.who.Name, "pid", o.worker.who.PID, "for", d.o.AnswerWait, "state", local.Standstill(o.worker.who))
		}
		if s.said != nil {
			continue // it is about to fail
		}
		if s.begun {
			text := fmt.Sprintf("worker %q (pid %d) has not answered for %v%s", o.worker.who.Name, o.worker.who.PID, d.o.AnswerWait, still(o.worker))
			if o.worker.events == "" {
				o.worker.events = d.flight.recorded(errors.New(text))
			}
			d.failSession(s, wire.CodeWorkerGone, text+o.worker.events)
			continue
		}
		x.move(s)
	}
	return worked
}

// still says that a worker stands still, and what to do; it is empty where it goes on.
func still(w *peer) string {
	if text := local.Standstill(w.who); text != "" {
		return ": " + text
	}
	return ""
}

// wake has the dispatcher woken when the oldest opening is late. Without one the timer
// rests, as it holds the memory that the dispatcher sleeps on.
func (x *silence) wake(now time.Time) {
	switch {
	case len(x.openings) == 0:
		x.rest()
	case x.openings[0].until != x.due:
		x.rest()
		x.due = x.openings[0].until
		x.timer = time.AfterFunc(x.due.Sub(now), x.d.o.Waiter.Wake)
	}
}

// rest stops the timer.
func (x *silence) rest() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.timer, x.due = nil, time.Time{}
}

// move places a session again that has not begun. It gets another number, so that no
// message about the first attempt is taken for one about this.
func (x *silence) move(s *session) {
	d := x.d
	d.dismiss(s, wire.CodeOK, nil)
	s.detach(d)
	s.over, s.workers, s.turn, s.unheard = false, nil, nil, nil
	d.last++
	s.id = d.last
	d.sessions[s] = struct{}{}
	s.await(d)
}

// heard is called when a worker that was silent has said something.
func (x *silence) heard(w *peer) {
	d := x.d
	w.silent, w.events = false, ""
	d.log.Info("worker answers again", "worker", w.who.Name, "pid", w.who.PID)
	for _, s := range slices.Clone(d.waiting) {
		d.place(s)
	}
}
