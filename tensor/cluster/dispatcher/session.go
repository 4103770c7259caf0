package dispatcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/turn"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

// session is what a client has with its workers: one, or several that run it together.
type session struct {
	id         uint64
	name       string
	quota      uint64
	want       int         // workers
	kind       device.Kind // of its workers; 0: any one kind
	mixed      bool        // they may be of several kinds
	direct     bool        // the client takes a conn of its own with its worker, the first of several
	config     []byte      // for them
	client     *peer
	workers    []*peer // by rank; nil while it waits for them
	deadline   time.Time
	paused     map[*peer]bool       // workers that have enough to do for it
	runPending bool                 // its last Run has not begun, and others share its workers: the next one waits
	turn       *turn.Session[*peer] // of a session of several workers
	said       map[*peer]string     // by workers that gave it up because another is gone (widow.go)
	over       bool                 // failed; the client has been told, and what it still sends is dropped
}

// fromClient handles a client's message; false says that it cannot be forwarded now.
func (d *Dispatcher) fromClient(p *peer, m *ipc.Message) bool {
	s := p.session
	switch m.Kind {
	case wire.KindOpenSession:
		if d.jammed() {
			return false
		}
		d.openSession(p, m)
		return true
	case wire.KindBye:
		if s != nil {
			d.closeSession(s, wire.CodeOK)
		}
		return true
	case wire.KindBody, wire.KindRun, wire.KindSegment, wire.KindSave, wire.KindLink:
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
	case s.workers == nil:
		return false
	case m.Kind == wire.KindLink:
		d.link(s, m)
		return true
	case len(s.paused) > 0 || s.runPending:
		return false
	case len(m.Body) < wire.SessionBytes:
		d.failSession(s, wire.CodeProtocol, fmt.Sprintf("%s of %d bytes", wire.KindName(m.Kind), len(m.Body)))
		return true
	}
	switch {
	case s.turn != nil && s.turn.Own():
		d.failSession(s, wire.CodeProtocol, wire.KindName(m.Kind)+" of a client that has a conn of its own with the first worker")
		return true
	case s.turn != nil && !d.line.MayForward(s.turn):
		return false
	}
	err := d.trySend(s, m)
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
	if s.turn != nil {
		d.line.Forwarded(s.turn)
	}
	for _, w := range s.workers {
		w.messages++
		w.bytes += uint64(len(m.Body))
		d.count(m)
	}
	return true
}

// trySend sends a client's message to all workers of its session, or to none: ErrFull if one of them has no room now. So what
// several sessions send to the same workers comes to each of them in the same order.
func (d *Dispatcher) trySend(s *session, m *ipc.Message) error {
	if len(s.workers) == 1 {
		return s.workers[0].trySend(m.Kind, m.Body, s.id, m.Files)
	}
	contended := m.Kind == wire.KindRun && d.line.Contended(s.turn)
	to := s.workers
	if m.Kind == wire.KindSegment { // of no use to those that share no memory with the client
		to = slices.DeleteFunc(slices.Clone(to), (*peer).far)
	}
	for i, w := range to {
		buf, err := w.reserve(m.Kind, len(m.Body))
		if err != nil {
			for _, w := range to[:i] {
				w.conn.Abort()
			}
			return err
		}
		copy(buf, m.Body)
		wire.SetSession(buf, s.id)
		if i == 0 && contended {
			s.runPending = wire.SetTurn(buf)
		}
	}
	var first error
	for _, w := range to {
		if err := w.conn.Commit(m.Files...); err != nil && first == nil {
			first = err
		}
	}
	if errors.Is(first, ipc.ErrPeerGone) {
		return nil // the others have it: that one's end is found by receiving, and ends the session
	}
	return first
}

// fromWorker hands a worker's message to the session's client.
func (d *Dispatcher) fromWorker(p *peer, m *ipc.Message) {
	switch m.Kind {
	case wire.KindSessionOpened, wire.KindSegment, wire.KindDone, wire.KindFail, wire.KindSaved, wire.KindLink:
	case wire.KindFlow:
		d.flow(p, m)
		return
	case wire.KindMeet:
		d.meet(p, m)
		return
	case wire.KindTurn:
		d.hearTurn(p, m)
		return
	case wire.KindWatched:
		d.watched(p, m)
		return
	case wire.KindDevice:
		d.register(p, m)
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
	if m.Kind == wire.KindFail && d.widow(s, p, m) {
		return // with a better reason, now or soon
	}
	if s.client.send(m.Kind, m.Body, 0, m.Files) {
		d.stats.queued.Add(1)
	}
	m.Files = nil // the client's now
	d.count(m)
	if m.Kind == wire.KindFail {
		d.stats.failed.Add(1)
		d.dismiss(s, wire.CodeInternal, p)
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
	switch {
	case !flow.Stop:
		delete(s.paused, p)
		s.runPending = s.runPending && p != s.workers[0]
		return
	case s.paused == nil:
		s.paused = map[*peer]bool{}
	}
	if !s.paused[p] {
		d.stats.paused.Add(1)
	}
	s.paused[p] = true
}

// link hands what a client says to one of its workers to that one, whatever else waits for it.
func (d *Dispatcher) link(s *session, m *ipc.Message) {
	var link wire.Link
	err := wire.ParseLink(m.Body, &link)
	switch {
	case err != nil:
		d.failSession(s, wire.CodeProtocol, err.Error())
	case int(link.Rank) >= len(s.workers):
		d.failSession(s, wire.CodeProtocol, fmt.Sprintf("Link to worker %d of %d", link.Rank, len(s.workers)))
	default:
		s.workers[link.Rank].send(m.Kind, m.Body, s.id, nil)
		d.count(m)
	}
}

// meet hands what a worker says to the others of its session, with a descriptor to the first alone.
func (d *Dispatcher) meet(p *peer, m *ipc.Message) {
	id, ok := wire.Session(m.Body)
	s := p.sessions[id]
	if !ok || len(m.Body) > wire.MaxMeet+64 {
		d.misbehaves(p, fmt.Sprintf("Meet of %d bytes", len(m.Body)))
		return
	}
	if s == nil {
		return // it ended meanwhile
	}
	d.count(m)
	to := s.workers
	if len(m.Files) > 0 {
		to = to[:1]
	}
	for _, w := range to {
		if w != p && !w.gone {
			w.send(m.Kind, m.Body, s.id, m.Files)
			m.Files = nil // that one's
		}
	}
}

func (d *Dispatcher) count(m *ipc.Message) {
	d.stats.messages.Add(1)
	d.stats.bytes.Add(uint64(len(m.Body)))
	d.stats.descriptors.Add(uint64(len(m.Files)))
	if n := wire.Payload(m.Kind, m.Body); n > 0 {
		d.stats.tensorBytes.Add(uint64(n))
	}
}

// jammed reports whether a worker has not read for so long that too much waits for room in its queue: news of sessions that were
// opened and closed, which are never refused. Until it has, nobody opens more.
func (d *Dispatcher) jammed() bool {
	for _, w := range d.workers {
		if w.queued > d.o.MaxQueued {
			return true
		}
	}
	return false
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
	s := &session{id: d.last, name: open.Name, quota: open.Quota, client: p, want: max(1, int(open.Workers)),
		kind: device.Kind(open.Kind), mixed: open.Mixed, direct: open.Direct, config: append([]byte(nil), open.Config...)}
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

// expire fails the sessions that have waited long enough for a worker.
func (d *Dispatcher) expire(now time.Time) (worked bool) {
	for len(d.waiting) > 0 && !now.Before(d.waiting[0].deadline) {
		s := d.waiting[0]
		d.failSession(s, wire.CodeNoWorker, d.missing(s))
		worked = true
	}
	return worked
}

// missing says which workers s waits for.
func (d *Dispatcher) missing(s *session) string {
	have := d.candidates(s)
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

// closeSession ends a session as its client wants it, or because the client is gone.
func (d *Dispatcher) closeSession(s *session, reason wire.Code) {
	s.client.session = nil
	if s.over {
		return
	}
	d.dismiss(s, reason, nil)
	d.forgetSession(s)
}

// failSession ends a session and tells the client why.
func (d *Dispatcher) failSession(s *session, code wire.Code, text string) {
	if s.over {
		return
	}
	d.log.Warn("session failed", "session", s.id, "name", s.name, "code", code, "text", text)
	d.abandon(s, code, text)
}

// abandon is failSession for one that is not over, without a warning: a worker gives it up for a reason of its own.
func (d *Dispatcher) abandon(s *session, code wire.Code, text string) {
	d.stats.failed.Add(1)
	d.dismiss(s, code, nil)
	d.forgetSession(s)
	if code == wire.CodeQuota {
		s.client.forget() // it does not read them
	}
	s.client.sendFail(code, text)
}

func (p *peer) sendFail(code wire.Code, text string) {
	p.send(wire.KindFail, wire.AppendFail(nil, &wire.Fail{Code: code, Text: wire.CutText(text)}), 0, nil)
}

// dismiss tells the workers that a session is over, but not the only one when it said so itself: by is who did, nil for none.
func (d *Dispatcher) dismiss(s *session, reason wire.Code, by *peer) {
	for _, w := range s.workers {
		if !w.gone && !(w == by && len(s.workers) == 1) {
			w.send(wire.KindCloseSession, wire.AppendCloseSession(nil, &wire.CloseSession{Session: s.id, Reason: reason}), s.id, nil)
		}
	}
}

// forgetSession takes a session out of the books.
func (d *Dispatcher) forgetSession(s *session) {
	s.over = true
	delete(d.sessions, s.id)
	d.stats.sessions.Add(-1)
	for _, w := range s.workers {
		delete(w.sessions, s.id)
	}
	if s.turn != nil {
		d.line.Leave(s.turn)
	}
	if s.workers != nil {
		return
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(x *session) bool { return x == s })
	d.stats.waiting.Add(-1)
}
