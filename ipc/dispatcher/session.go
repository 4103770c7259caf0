package dispatcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
)

// session is what a client has with a worker.
type session struct {
	id       uint64
	name     string
	quota    uint64
	client   *peer
	worker   *peer // nil while it waits for one
	deadline time.Time
	paused   bool // its worker has enough to do for it
	over     bool // failed; the client has been told, and what it still sends is dropped
}

// fromClient handles a client's message; false says that it cannot be forwarded now.
func (d *Dispatcher) fromClient(p *peer, m *ipc.Message) bool {
	s := p.session
	switch m.Kind {
	case wire.KindOpenSession:
		d.openSession(p, m)
		return true
	case wire.KindBye:
		if s != nil {
			d.closeSession(s, wire.CodeOK)
		}
		return true
	case wire.KindBody, wire.KindRun, wire.KindSegment, wire.KindDropSegment, wire.KindData, wire.KindRead:
	default:
		d.misbehaves(p, fmt.Sprintf("%s (kind %d) from a client", wire.KindName(m.Kind), m.Kind))
		return true
	}
	switch {
	case s == nil:
		d.misbehaves(p, wire.KindName(m.Kind)+" before OpenSession")
		return true
	case s.over:
		return true
	case s.worker == nil:
		return false
	case s.paused:
		return false
	case len(m.Body) < wire.SessionBytes:
		d.failSession(s, wire.CodeProtocol, fmt.Sprintf("%s of %d bytes", wire.KindName(m.Kind), len(m.Body)))
		return true
	}
	err := s.worker.trySend(m.Kind, m.Body, s.id, m.Files)
	switch {
	case errors.Is(err, ipc.ErrFull):
		d.stats.blocked.Add(1)
		return false
	case errors.Is(err, ipc.ErrPeerGone):
		return false // its turn will show, after what it still said
	case err != nil:
		d.failSession(s, wire.CodeInternal, fmt.Sprintf("%s could not be passed on: %v", wire.KindName(m.Kind), err))
		return true
	}
	s.worker.messages++
	s.worker.bytes += uint64(len(m.Body))
	d.count(m)
	return true
}

// fromWorker hands a worker's message to the session's client.
func (d *Dispatcher) fromWorker(p *peer, m *ipc.Message) {
	switch m.Kind {
	case wire.KindSessionOpened, wire.KindSegment, wire.KindDropSegment, wire.KindDone, wire.KindFail, wire.KindData:
	case wire.KindFlow:
		d.flow(p, m)
		return
	default:
		d.misbehaves(p, fmt.Sprintf("%s (kind %d) from a worker", wire.KindName(m.Kind), m.Kind))
		return
	}
	id, ok := wire.Session(m.Body)
	if !ok {
		d.misbehaves(p, fmt.Sprintf("%s of %d bytes", wire.KindName(m.Kind), len(m.Body)))
		return
	}
	s := p.sessions[id]
	if s == nil {
		return // it ended meanwhile
	}
	if s.client.send(m.Kind, m.Body, 0, m.Files) {
		d.stats.queued.Add(1)
	}
	m.Files = nil // the client's now
	d.count(m)
	if m.Kind == wire.KindFail {
		d.stats.failed.Add(1)
		d.forgetSession(s)
		return
	}
	if s.client.queued > d.o.MaxQueued {
		d.failSession(s, wire.CodeQuota, fmt.Sprintf("the client has not read %d bytes of answers, at most %d are kept",
			s.client.queued, d.o.MaxQueued))
	}
}

// flow holds a session's messages back in its client's queue, or lets them go on.
func (d *Dispatcher) flow(p *peer, m *ipc.Message) {
	var flow wire.Flow
	if err := wire.ParseFlow(m.Body, &flow); err != nil {
		d.misbehaves(p, err.Error())
		return
	}
	s := p.sessions[flow.Session]
	if s == nil {
		return // it ended meanwhile
	}
	if flow.Stop && !s.paused {
		d.stats.paused.Add(1)
	}
	s.paused = flow.Stop
}

func (d *Dispatcher) count(m *ipc.Message) {
	d.stats.messages.Add(1)
	d.stats.bytes.Add(uint64(len(m.Body)))
	d.stats.descriptors.Add(uint64(len(m.Files)))
	if n := wire.Payload(m.Kind, m.Body); n > 0 {
		d.stats.tensorBytes.Add(uint64(n))
	}
}

// openSession starts a session for a client.
func (d *Dispatcher) openSession(p *peer, m *ipc.Message) {
	var open wire.OpenSession
	if err := wire.ParseOpenSession(m.Body, &open); err != nil {
		d.misbehaves(p, err.Error())
		return
	}
	if p.session != nil {
		d.misbehaves(p, "OpenSession with a session open")
		return
	}
	d.last++
	s := &session{id: d.last, name: open.Name, quota: open.Quota, client: p}
	p.session = s
	if n := len(d.sessions); n >= d.o.MaxSessions {
		s.over = true
		p.sendFail(wire.CodeQuota, fmt.Sprintf("%d sessions are open, at most %d can be", n, d.o.MaxSessions))
		return
	}
	d.sessions[s.id] = s
	d.stats.sessions.Add(1)
	d.stats.opened.Add(1)
	s.deadline = time.Now().Add(d.o.WorkerWait)
	d.waiting = append(d.waiting, s)
	d.stats.waiting.Add(1)
	if !d.place(s) && d.o.WorkerWait > 0 {
		time.AfterFunc(d.o.WorkerWait, d.o.Waiter.Wake)
	}
}

// place gives a waiting session to the worker with the least to do; false when there is none.
func (d *Dispatcher) place(s *session) bool {
	var best *peer
	for _, w := range d.workers {
		if w.gone || w.conn.Err() != nil {
			continue
		}
		if best == nil || w.less(best) {
			best = w
		}
	}
	if best == nil {
		return false
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(x *session) bool { return x == s })
	d.stats.waiting.Add(-1)
	s.worker = best
	best.sessions[s.id] = s
	best.send(wire.KindOpenSession, wire.AppendOpenSession(nil, &wire.OpenSession{
		Session: s.id, Quota: s.quota, Apart: s.client.far() || best.far(), Name: s.name}), s.id, nil)
	d.log.Info("session placed", "session", s.id, "name", s.name, "worker", best.who.Name, "client", s.client)
	return true
}

// less orders workers by what they have to do; the name decides at last, so that the
// same history gives the same placement.
func (p *peer) less(q *peer) bool {
	if len(p.sessions) != len(q.sessions) {
		return len(p.sessions) < len(q.sessions)
	}
	if p.bytes != q.bytes {
		return p.bytes < q.bytes
	}
	return p.who.Name < q.who.Name
}

// expire fails the sessions that have waited long enough for a worker.
func (d *Dispatcher) expire(now time.Time) (worked bool) {
	for len(d.waiting) > 0 && !now.Before(d.waiting[0].deadline) {
		d.failSession(d.waiting[0], wire.CodeNoWorker,
			"no worker is connected: start one with ringside worker, or all of it with ringside up")
		worked = true
	}
	return worked
}

// closeSession ends a session as its client wants it, or because the client is gone.
func (d *Dispatcher) closeSession(s *session, reason wire.Code) {
	s.client.session = nil
	if s.over {
		return
	}
	d.dismiss(s, reason)
	d.forgetSession(s)
}

// failSession ends a session and tells the client why.
func (d *Dispatcher) failSession(s *session, code wire.Code, text string) {
	if s.over {
		return
	}
	d.stats.failed.Add(1)
	d.log.Warn("session failed", "session", s.id, "name", s.name, "code", code, "text", text)
	d.dismiss(s, code)
	d.forgetSession(s)
	if code == wire.CodeQuota {
		s.client.forget() // it does not read them
	}
	s.client.sendFail(code, text)
}

func (p *peer) sendFail(code wire.Code, text string) {
	p.send(wire.KindFail, wire.AppendFail(nil, &wire.Fail{Code: code, Text: wire.CutText(text)}), 0, nil)
}

// dismiss tells the worker that a session is over.
func (d *Dispatcher) dismiss(s *session, reason wire.Code) {
	if s.worker != nil && !s.worker.gone {
		s.worker.send(wire.KindCloseSession, wire.AppendCloseSession(nil, &wire.CloseSession{Session: s.id, Reason: reason}), s.id, nil)
	}
}

// forgetSession takes a session out of the books.
func (d *Dispatcher) forgetSession(s *session) {
	s.over = true
	delete(d.sessions, s.id)
	d.stats.sessions.Add(-1)
	if s.worker != nil {
		delete(s.worker.sessions, s.id)
		return
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(x *session) bool { return x == s })
	d.stats.waiting.Add(-1)
}
