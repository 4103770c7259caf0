package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/turn"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// session is a client's session with one worker, or with several that run it together.
type session struct {
	id    uint64
	name  string
	quota uint64
	want  int         // number of workers
	kind  device.Kind // of its workers; 0: any one kind
	mixed bool        // they may be of several kinds
	// the client takes a connection of its own to its (first) worker
	direct   bool
	config   []byte  // for them
	client   *peer   // nil if it has not resumed the session yet
	token    []byte  // by which it does
	workers  []*peer // by rank; nil while it waits for them
	deadline time.Time
	paused   map[*peer]bool // workers that have enough to do for it
	// the last Run that was forwarded has not begun: the client's messages wait
	runPending bool
	turn       *turn.Session[*peer] // of a session of several workers
	said       map[*peer]string     // reasons of workers that gave it up, see givenup.go
	unheard    []*peer              // workers that have said nothing about it yet
	// begun: the client was told that a worker has opened it, or a worker was sent a
	// message of the client
	begun bool
	// ended: by its client, or failed and the client was told; messages that still come
	// are dropped
	over bool
}

// jammed reports whether more than most bytes of messages wait for room in a worker's
// queue. Messages that open and close sessions are never refused, so while a worker is
// jammed no session opens.
func jammed(workers map[string]*peer, most int) bool {
	for _, w := range workers {
		if w.queued > most {
			return true
		}
	}
	return false
}

// openSession starts a session for a client.
func (d *Dispatcher) openSession(p *peer, m *ipc.Message) {
	var open wire.OpenSession
	if !d.parse(p, m, &open) {
		return
	}
	if p.session != nil || p.claim != "" {
		d.misbehaves(p, "OpenSession with a session open")
		return
	}
	d.last++
	s := &session{id: d.last, name: open.Name, quota: open.Quota, client: p, want: max(1, int(open.Workers)),
		kind: device.Kind(open.Kind), mixed: open.Mixed, direct: open.Direct, config: append([]byte(nil), open.Config...)}
	p.session, d.peers.changed = s, true
	if n := len(d.sessions); n >= d.o.MaxSessions {
		s.over = true
		p.sendFail(wire.CodeQuota, fmt.Sprintf("%d sessions are open, at most %d can be", n, d.o.MaxSessions))
		return
	}
	d.sessions[s] = struct{}{}
	d.stats.sessions.Add(1)
	d.stats.opened.Add(1)
	s.await(d)
}

// await places a session, or has it wait for its workers.
func (s *session) await(d *Dispatcher) {
	s.deadline = time.Now().Add(d.o.WorkerWait)
	d.waiting = append(d.waiting, s)
	d.stats.waiting.Add(1)
	if !d.place(s) && d.o.WorkerWait > 0 {
		time.AfterFunc(d.o.WorkerWait, d.o.Waiter.Wake)
	}
}

// expire fails the sessions that have waited long enough for a worker.
func (d *Dispatcher) expire(now time.Time) (worked bool) {
	for len(d.waiting) > 0 && !now.Before(d.waiting[0].deadline) {
		s := d.waiting[0]
		d.failSession(s, wire.CodeNoWorker, d.missing(s))
		worked = true
	}
	return worked
}

// missing returns an error text about the workers that s waits for.
func (d *Dispatcher) missing(s *session) string {
	have := d.candidates(s)
	for _, name := range slices.Sorted(maps.Keys(d.workers)) {
		if w := d.workers[name]; w.silent {
			return fmt.Sprintf("the session needs %d workers, %d answer: worker %q (pid %d) has not answered for %v or more%s: end it, or wait for it",
				s.want, len(have), name, w.who.PID, d.o.AnswerWait, still(w))
		}
	}
	switch {
	case s.kind != 0:
		return fmt.Sprintf("the session needs workers of kind %v: %d, %d are connected: start more with ringside worker", s.kind, s.want, len(have))
	case s.want > 1:
		kind := ""
		if len(have) < int(d.stats.workers.Load()) {
			kind = " of one kind"
		}
		return fmt.Sprintf("the session needs %d workers, %d%s are connected: start more with ringside worker, or all of it with ringside up -n %d",
			s.want, len(have), kind, s.want)
	}
	return "no worker is connected: start one with ringside worker, or all of it with ringside up"
}

// closeSession ends a session because its client wants it, or is gone. The workers are
// told also if the session has failed before: they keep its leases until then, because
// the client may be reading results.
func (d *Dispatcher) closeSession(s *session) {
	s.client.session, d.peers.changed = nil, true
	d.dismiss(s, wire.CodeOK, nil)
	if !s.over {
		d.forgetSession(s)
	}
}

// failSession ends a session and tells the client why.
func (d *Dispatcher) failSession(s *session, code wire.Code, text string) {
	if s.over {
		return
	}
	d.log.Warn("session failed", "session", s.id, "name", s.name, "code", code, "text", text)
	d.abandon(s, code, text)
}

// abandon fails a session that is not over, without a warning.
func (d *Dispatcher) abandon(s *session, code wire.Code, text string) {
	d.stats.failed.Add(1)
	d.dismiss(s, code, nil)
	d.forgetSession(s)
	if s.client == nil {
		return
	}
	if code == wire.CodeQuota {
		s.client.forget() // it does not read its messages
	}
	s.client.sendFail(code, text)
}

func (p *peer) sendFail(code wire.Code, text string) {
	p.send(wire.KindFail, wire.Append(nil, &wire.Fail{Code: code, Text: wire.CutText(text)}), 0, nil)
}

// dismiss tells the workers that a session is over. by is the worker that reported it, or
// nil; a session's only worker is not told its own report.
func (d *Dispatcher) dismiss(s *session, reason wire.Code, by *peer) {
	for _, w := range s.workers {
		if !w.gone && !(w == by && len(s.workers) == 1) {
			w.send(wire.KindCloseSession, wire.Append(nil, &wire.CloseSession{Session: s.id, Reason: reason}), s.id, nil)
		}
	}
}

// forgetSession removes a session that is over.
func (d *Dispatcher) forgetSession(s *session) {
	s.over, d.peers.changed = true, true
	d.stats.sessions.Add(-1)
	s.detach(d)
	if s.workers == nil {
		d.waiting = slices.DeleteFunc(d.waiting, func(x *session) bool { return x == s })
		d.stats.waiting.Add(-1)
	}
}

// detach takes a session from its workers.
func (s *session) detach(d *Dispatcher) {
	delete(d.sessions, s)
	d.resumed.forget(s)
	for _, w := range s.workers {
		delete(w.sessions, s.id)
	}
	if s.turn != nil {
		d.line.Leave(s.turn)
	}
}
