package dispatcher

import (
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// A session that has one worker and a connection of its own with it goes on when its
// dispatcher dies. Both ends of the connection look for the next dispatcher, and name the
// session by a token that the two share:
//
//	worker ── Device, Held ──▶ dispatcher ◀── Resume ── client
//	                           dispatcher ─── Resume ─▶ client
//
// Either may come first. From Held on the session counts for the placement of others.
// From both on it is as one that this dispatcher opened: it ends with its client, Stop
// reaches its worker, and the client is told why it ended.

// resumed is the sessions of other dispatchers of which one end has not come yet.
type resumed struct {
	d      *Dispatcher
	held   map[string]*session // that workers told of, by token
	claims map[string]*peer    // clients that wait for their workers, by token
}

func newResumed(d *Dispatcher) resumed {
	return resumed{d: d, held: map[string]*session{}, claims: map[string]*peer{}}
}

// leave forgets that a client waits.
func (r *resumed) leave(p *peer) {
	if p.claim != "" && r.claims[p.claim] == p {
		delete(r.claims, p.claim)
	}
}

// forget forgets a session that is over.
func (r *resumed) forget(s *session) {
	if t := string(s.token); r.held[t] == s {
		delete(r.held, t)
	}
}

// hold handles a worker's Held.
func (r *resumed) hold(p *peer, m *ipc.Message) {
	d := r.d
	var h wire.Held
	if !d.parse(p, m, &h) {
		return
	}
	s := p.sessions[h.Session]
	switch {
	case h.Over:
		if s != nil && s.client == nil {
			d.forgetSession(s)
		}
		return
	case p.device == nil, s != nil, h.Session > d.last, len(h.Token) == 0, r.held[string(h.Token)] != nil:
		d.misbehaves(p, fmt.Sprintf("Held of session %d, which it has: %v, with a token of %d bytes", h.Session, s != nil, len(h.Token)))
		return
	case len(d.sessions) >= d.o.MaxSessions:
		d.warnings.Warn("held", "session of another dispatcher is not taken over: too many are open", "worker", p, "session", h.Session, "open", len(d.sessions))
		return
	}
	s = &session{id: h.Session, name: h.Name, quota: h.Quota, want: 1, direct: true, begun: true, workers: []*peer{p},
		token: append([]byte(nil), h.Token...)}
	p.sessions[s.id] = s
	d.sessions[s] = struct{}{}
	d.stats.sessions.Add(1)
	if c := r.claims[string(s.token)]; c != nil {
		r.bind(c, s)
		return
	}
	r.held[string(s.token)] = s
}

// resume handles a client's Resume. A client whose worker has not come waits, as one with
// an open session: after a dispatcher's death very many may come before their workers do.
// As many may wait as sessions may be open.
func (r *resumed) resume(p *peer, m *ipc.Message) {
	d := r.d
	var named wire.Resume
	if !d.parse(p, m, &named) {
		return
	}
	if p.session != nil || p.claim != "" || len(named.Token) == 0 {
		d.misbehaves(p, fmt.Sprintf("Resume with a token of %d bytes, while it has a session: %v", len(named.Token), p.session != nil || p.claim != ""))
		return
	}
	token := string(named.Token)
	if s := r.held[token]; s != nil {
		r.bind(p, s)
		return
	}
	if before := r.claims[token]; before != nil {
		// Perhaps it is the same client, and the end of its last connection is not
		// noticed yet.
		turnOut(d, before, "claim", "another client waits to resume the same session")
	}
	if n := len(r.claims); n >= d.o.MaxSessions {
		turnOut(d, p, "claim", fmt.Sprintf("%d clients wait to resume their sessions, at most %d can", n, d.o.MaxSessions))
		return
	}
	p.claim, r.claims[token] = token, p
	d.peers.changed = true
}

// bind gives a session to the client that named it.
func (r *resumed) bind(p *peer, s *session) {
	r.leave(p)
	r.forget(s)
	p.claim, p.session, s.client = "", s, p
	r.d.peers.changed = true
	p.send(wire.KindResume, wire.Append(nil, &wire.Resume{Token: s.token}), 0, nil)
	r.d.log.Info("session resumed", "session", s.id, "name", s.name, "worker", s.workers[0].who.Name, "client", p)
}
