package dispatcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// join accepts a new peer, or refuses it.
func (d *Dispatcher) join(p *peer) {
	switch p.role {
	case ipc.RoleClient:
		d.makeRoom()
		d.stats.clients.Add(1)
	case ipc.RoleControl:
		if n, _ := d.peers.idle(p.role); n >= d.o.MaxIdle {
			d.refuse(p, wire.CodeQuota, fmt.Sprintf("%d are connected that ask for Status and Watch, at most %d can be: end some", n, d.o.MaxIdle))
			return
		}
	case ipc.RoleWorker:
		if !d.hire(p) {
			return
		}
	default:
		d.refuse(p, wire.CodeProtocol, fmt.Sprintf("role %s is neither client, worker nor control", p.role))
		return
	}
	d.log.Debug("peer connected", "peer", p)
	d.peers.add(p)
}

// crowded reports whether so many clients are about to open their sessions that no
// further peer is accepted now. Peers wait in the listener's queue meanwhile, for
// Options.IdleWait at most.
func crowded(d *Dispatcher, now time.Time) bool {
	if len(d.peers.all) < d.o.MaxIdle {
		return false
	}
	n, oldest := d.peers.idle(ipc.RoleClient)
	if n < d.o.MaxIdle {
		return false
	}
	until := oldest.came.Add(d.o.IdleWait)
	if !now.Before(until) {
		return false
	}
	if d.acceptAt != until {
		d.acceptAt = until
		time.AfterFunc(until.Sub(now), d.o.Waiter.Wake)
	}
	return true
}

// makeRoom ends the oldest client without an open session if there are as many as may be.
// Their messages are handled first: the dispatcher, too, may have had no processor since
// they came.
func (d *Dispatcher) makeRoom() {
	n, p := d.peers.idle(ipc.RoleClient)
	for heard := (*peer)(nil); n >= d.o.MaxIdle && heard != p; {
		heard = p
		d.serve(p)
		d.peers.changed = true
		n, p = d.peers.idle(ipc.RoleClient)
	}
	if n < d.o.MaxIdle {
		return
	}
	turnOut(d, p, "idle", fmt.Sprintf("%d clients are connected without an open session, at most %d can be, and this one is the oldest of them: "+
		"open a session, or close the connection", n, d.o.MaxIdle))
}

// turnOut ends a client without a session. The log has a limit for each kind of reason.
func turnOut(d *Dispatcher, p *peer, kind, text string) {
	d.stats.refused.Add(1)
	d.warnings.Warn(kind, "client without a session ended", "peer", p, "reason", text)
	p.tell(&wire.Fail{Code: wire.CodeQuota, Text: text})
	d.lost(p, errors.New(text))
}

// hire accepts a worker, unless its name is taken. A worker says a random Note, the same
// each time: it takes the place of a connection of its own, whose end has been noticed
// there and not here.
func (d *Dispatcher) hire(p *peer) bool {
	name := p.who.Name
	if name == "" {
		d.refuse(p, wire.CodeProtocol, "a worker needs a name")
		return false
	}
	if old := d.workers[name]; old != nil {
		// A restarted worker may connect before the end of its predecessor was noticed.
		err := old.conn.Err()
		if err == nil && p.who.Note != "" && p.who.Note == old.who.Note {
			err = errors.New("its connection was cut, and it has another one")
		}
		if err == nil {
			d.refuse(p, wire.CodeNameTaken, fmt.Sprintf("worker name %q is taken by pid %d; this is pid %d",
				name, old.who.PID, p.who.PID))
			return false
		}
		d.lost(old, err)
	}
	p.sessions = map[uint64]*session{}
	d.workers[name] = p
	return true
}

// register handles a worker's Device. Sessions are placed on the worker from the first
// on.
func (d *Dispatcher) register(p *peer, m *ipc.Message) {
	var dev wire.Device
	if !d.parse(p, m, &dev) {
		return
	}
	skip(d, dev.Last)
	first := p.device == nil
	if p.device = &dev; !first {
		return
	}
	d.stats.workers.Add(1)
	d.log.Info("worker joined", "worker", p.who.Name, "pid", p.who.PID, "device", dev.Info.Name)
	for _, s := range slices.Clone(d.waiting) {
		d.place(s)
	}
}

// skip has no session get a number up to last: sessions that outlived another dispatcher
// have them. Those that wait for a worker get new ones.
func skip(d *Dispatcher, last uint64) {
	d.last = max(d.last, last)
	for _, s := range d.waiting {
		if s.id <= last {
			d.last++
			s.id = d.last
		}
	}
}

// refuse tells a new peer the reason, and closes its connection.
func (d *Dispatcher) refuse(p *peer, code wire.Code, text string) {
	d.stats.refused.Add(1)
	d.warnings.Warn(fmt.Sprint("refused: ", code), "peer refused", "peer", p, "reason", text)
	p.tell(&wire.Fail{Code: code, Text: text})
	_ = p.conn.Close()
}
