package dispatcher

import (
	"encoding/binary"
	"fmt"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// watch forwards a control's Watch to the workers, or to the one that is named. It skips
// a worker whose queue has no room, so that questions do not pile up.
func (d *Dispatcher) watch(p *peer, m *ipc.Message) {
	var ask wire.Watch
	if !d.parse(p, m, &ask) {
		return
	}
	if !asker(d, p, m.Kind) {
		return
	}
	ask.Ask = p.asks
	body := wire.Append(nil, &ask)
	for _, w := range d.workers {
		if ask.Worker == "" || ask.Worker == w.who.Name {
			_ = w.trySend(wire.KindWatch, body, 0, nil) // its end is found by receiving
		}
	}
}

// asker gives a control that asks a number. Another peer does not ask.
func asker(d *Dispatcher, p *peer, kind uint32) bool {
	if p.role != ipc.RoleControl {
		d.misbehaves(p, fmt.Sprintf("%s from a %s", wire.KindName(kind), p.role))
		return false
	}
	if p.asks == 0 {
		d.asks++
		p.asks = d.asks
		d.watchers[p.asks] = p
	}
	return true
}

// show forwards a control's Show to the first worker of the session. It answers that
// there is none where the session has no worker, or its queue has no room.
func show(d *Dispatcher, p *peer, m *ipc.Message) {
	var ask wire.Show
	if !d.parse(p, m, &ask) || !asker(d, p, m.Kind) {
		return
	}
	ask.Ask = p.asks
	for s := range d.sessions {
		if s.id == ask.Of && !s.over && len(s.workers) > 0 && s.workers[0].trySend(wire.KindShow, wire.Append(nil, &ask), 0, nil) == nil {
			return
		}
	}
	p.send(wire.KindShown, wire.Append(nil, &wire.Shown{Ask: ask.Ask, Of: ask.Of}), 0, nil)
}

// watched forwards a worker's answer to the control that asked, if it is still connected.
func (d *Dispatcher) watched(p *peer, m *ipc.Message) {
	if len(m.Body) < 2*wire.SessionBytes {
		d.misbehaves(p, fmt.Sprintf("%s of %d bytes", wire.KindName(m.Kind), len(m.Body)))
		return
	}
	to := d.watchers[binary.LittleEndian.Uint64(m.Body[wire.SessionBytes:])]
	if to == nil {
		return
	}
	to.send(m.Kind, m.Body, 0, nil)
	if to.queued > d.o.MaxQueued {
		d.misbehaves(to, "asks with Watch or Show and does not read the answers")
	}
}
