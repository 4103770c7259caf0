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
	if p.role != ipc.RoleControl {
		d.misbehaves(p, fmt.Sprintf("Watch from a %s", p.role))
		return
	}
	if p.asks == 0 {
		d.asks++
		p.asks = d.asks
		d.watchers[p.asks] = p
	}
	ask.Ask = p.asks
	body := wire.Append(nil, &ask)
	for _, w := range d.workers {
		if ask.Worker == "" || ask.Worker == w.who.Name {
			_ = w.trySend(wire.KindWatch, body, 0, nil) // its end is found by receiving
		}
	}
}

// watched forwards a worker's answer to the control that asked, if it is still connected.
func (d *Dispatcher) watched(p *peer, m *ipc.Message) {
	if len(m.Body) < 2*wire.SessionBytes {
		d.misbehaves(p, fmt.Sprintf("Watched of %d bytes", len(m.Body)))
		return
	}
	to := d.watchers[binary.LittleEndian.Uint64(m.Body[wire.SessionBytes:])]
	if to == nil {
		return
	}
	to.send(wire.KindWatched, m.Body, 0, nil)
	if to.queued > d.o.MaxQueued {
		d.misbehaves(to, "asks with Watch and does not read the answers")
	}
}
