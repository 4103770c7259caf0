package dispatcher

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// fromClient handles a client's message. It returns false if it cannot be forwarded now.
func (d *Dispatcher) fromClient(p *peer, m *ipc.Message) bool {
	s := p.session
	switch m.Kind {
	case wire.KindOpenSession:
		if jammed(d.workers, d.o.MaxQueued) {
			return false
		}
		d.openSession(p, m)
		return true
	case wire.KindResume:
		d.resumed.resume(p, m)
		return true
	case wire.KindBye:
		if s != nil {
			d.closeSession(s)
		}
		return true
	case wire.KindBody, wire.KindRun, wire.KindSegment, wire.KindSave, wire.KindLink, wire.KindStop:
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
	case m.Kind == wire.KindLink, m.Kind == wire.KindStop:
		return d.route(s, m)
	case len(s.paused) > 0 || s.runPending:
		return false
	case len(m.Body) < wire.SessionBytes:
		d.failSession(s, wire.CodeProtocol, fmt.Sprintf("%s of %d bytes", wire.KindName(m.Kind), len(m.Body)))
		return true
	}
	if most := mostFiles(s, m.Kind); len(m.Files) > most {
		d.failSession(s, wire.CodeProtocol, fmt.Sprintf("%s with %d descriptors, expected at most %d", wire.KindName(m.Kind), len(m.Files), most))
		return true
	}
	switch {
	case s.turn != nil && s.turn.Own():
		d.failSession(s, wire.CodeProtocol, wire.KindName(m.Kind)+" from a client that has a connection of its own with the first worker")
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
		return false // serve finds it lost, after its last messages
	case err != nil:
		d.failSession(s, wire.CodeInternal, fmt.Sprintf("%s could not be passed on: %v", wire.KindName(m.Kind), err))
		return true
	}
	s.begun = true
	if s.turn != nil {
		d.line.Forwarded(s.turn)
	}
	for _, w := range s.workers {
		w.messages++
		w.bytes += uint64(len(m.Body))
		d.count(m)
	}
	ipc.ClosePassed(m.Files)
	m.Files = nil
	return true
}

// mostFiles returns how many descriptors a client's message may have. Workers keep
// messages that wait, so one with more would use up theirs.
func mostFiles(s *session, kind uint32) int {
	switch kind {
	case wire.KindSegment:
		return 1
	case wire.KindSave:
		return len(s.workers)
	}
	return 0
}

// trySend sends a client's message to all workers of its session, or to none: ErrFull if
// one of them has no room now. So all workers receive the messages of several sessions in
// the same order.
func (d *Dispatcher) trySend(s *session, m *ipc.Message) error {
	if len(s.workers) == 1 {
		return s.workers[0].trySend(m.Kind, m.Body, s.id, m.Files)
	}
	contended := m.Kind == wire.KindRun && d.line.Contended(s.turn)
	to := s.workers
	// useless to workers that share no memory with the client
	if m.Kind == wire.KindSegment {
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
		// the others have it; receiving finds the end of this one, and ends the session
		return nil
	}
	return first
}

// fromWorker forwards a worker's message to the session's client.
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
	case wire.KindWatched, wire.KindShown:
		d.watched(p, m)
		return
	case wire.KindDevice:
		d.register(p, m)
		return
	case wire.KindHeld:
		d.resumed.hold(p, m)
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
	if s.client == nil {
		if m.Kind == wire.KindFail { // its client has heard it from the worker
			d.stats.failed.Add(1)
			d.forgetSession(s)
		}
		return
	}
	if len(s.unheard) > 0 {
		s.hear(p)
	}
	s.begun = s.begun || m.Kind == wire.KindSessionOpened
	if m.Kind == wire.KindFail && d.giveUp(s, p, m) {
		return // a better reason may follow
	}
	if s.client.send(m.Kind, m.Body, 0, m.Files) {
		d.stats.queued.Add(1)
	}
	m.Files = nil // send closes them
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

// flow holds a session's messages back in its client's queue, or lets them pass again.
func (d *Dispatcher) flow(p *peer, m *ipc.Message) {
	var flow wire.Flow
	if !d.parse(p, m, &flow) {
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

// route forwards a client's Link to the worker that it is for, or its Stop to all workers
// of the session, past the messages that wait. It returns false while a worker has no
// room for a Stop, which may come twice to the others.
func (d *Dispatcher) route(s *session, m *ipc.Message) bool {
	var link wire.Link
	var stop wire.Stop
	var err error
	if m.Kind == wire.KindLink {
		err = wire.Parse(m.Body, &link)
	} else {
		err = wire.Parse(m.Body, &stop)
	}
	switch {
	case err != nil:
		d.failSession(s, wire.CodeProtocol, err.Error())
		return true
	case int(link.Rank) >= len(s.workers):
		d.failSession(s, wire.CodeProtocol, fmt.Sprintf("Link to worker %d of %d", link.Rank, len(s.workers)))
		return true
	case m.Kind == wire.KindLink:
		s.workers[link.Rank].send(m.Kind, m.Body, s.id, nil)
	default:
		for _, w := range s.workers {
			if errors.Is(w.trySend(m.Kind, m.Body, s.id, nil), ipc.ErrFull) {
				return false
			}
		}
	}
	d.count(m)
	return true
}

// meet forwards a worker's Meet to the others of its session, with a descriptor to the
// first alone.
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
	s.hear(p)
	d.count(m)
	to := s.workers
	if len(m.Files) > 0 {
		to = to[:1]
	}
	for _, w := range to {
		if w != p && !w.gone {
			w.send(m.Kind, m.Body, s.id, m.Files)
			m.Files = nil // send closes them
		}
	}
}

// count counts a message that was forwarded.
func (d *Dispatcher) count(m *ipc.Message) {
	d.stats.messages.Add(1)
	d.stats.bytes.Add(uint64(len(m.Body)))
	d.stats.descriptors.Add(uint64(len(m.Files)))
	if n := wire.Payload(m.Kind, m.Body); n > 0 {
		d.stats.tensorBytes.Add(uint64(n))
	}
}
