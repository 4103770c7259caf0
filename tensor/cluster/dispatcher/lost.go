package dispatcher

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// misbehaves ends the connection of a peer that broke the protocol.
func (d *Dispatcher) misbehaves(p *peer, what string) {
	d.warnings.Warn("protocol", "peer broke the protocol", "peer", p, "what", what)
	p.tell(&wire.Fail{Code: wire.CodeProtocol, Text: what})
	d.lost(p, fmt.Errorf("%w: %s", ipc.ErrCorrupt, what))
}

// parse parses a message of p. It ends the connection and returns false if p broke the
// protocol.
func (d *Dispatcher) parse(p *peer, m *ipc.Message, into wire.Message) bool {
	err := wire.Parse(m.Body, into)
	if err != nil {
		d.misbehaves(p, err.Error())
	}
	return err == nil
}

// lost removes a peer whose connection has ended, or must. The sessions of a worker fail
// with the reason that it gave, otherwise with its name, its pid and how it ended; their
// other workers get CloseSession before the turn goes to another session.
func (d *Dispatcher) lost(p *peer, err error) {
	if p.gone {
		return
	}
	p.gone, d.peers.gone, d.peers.changed = true, true, true
	switch p.role {
	case ipc.RoleClient:
		d.stats.clients.Add(-1)
		if p.session != nil {
			d.closeSession(p.session)
		}
	case ipc.RoleWorker:
		if p.device != nil {
			d.stats.workers.Add(-1)
		}
		delete(d.workers, p.who.Name)
		// The end of a worker is a warning only if it has sessions for whose end it gave
		// no reason.
		level := slog.LevelInfo
		for _, s := range p.sessions {
			if _, said := s.said[p]; !said {
				level = slog.LevelWarn
			}
		}
		d.log.Log(context.Background(), level, "worker gone", "worker", p.who.Name, "pid", p.who.PID, "sessions", len(p.sessions), "err", err)
		where := ""
		if level == slog.LevelWarn {
			where = d.flight.recorded(fmt.Errorf("worker %q (pid %d) is gone: %s", p.who.Name, p.who.PID, ending(err)))
		}
		for _, s := range p.sessions {
			if text, said := s.said[p]; said {
				d.abandon(s, wire.CodeWorkerGone, text)
				continue
			}
			d.failSession(s, wire.CodeWorkerGone, fmt.Sprintf("worker %q (pid %d) is gone: %s%s", p.who.Name, p.who.PID, ending(err), where))
		}
	}
	delete(d.watchers, p.asks)
	d.resumed.leave(p)
	d.trainings.over(p)
	d.log.Debug("peer gone", "peer", p, "err", err)
	p.end()
}
