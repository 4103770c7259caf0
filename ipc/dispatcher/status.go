package dispatcher

import (
	"maps"
	"os"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/wire"
)

// perWorker is how many counters of each worker a status has.
const perWorker = 5

// status answers with the counters: those of Stats, then of each worker, by name, its
// pid, its open sessions, what was forwarded to it, and bytes that wait for room in its queue.
func (d *Dispatcher) status(p *peer, m *ipc.Message) {
	var ask wire.Status
	if err := wire.ParseStatus(m.Body, &ask); err != nil {
		d.misbehaves(p, err.Error())
		return
	}
	s := d.Stats()
	reply := wire.StatusReply{Counters: []wire.Counter{
		{Name: "pid", Value: uint64(os.Getpid())},
		{Name: "clients", Value: uint64(s.Clients)},
		{Name: "workers", Value: uint64(s.Workers)},
		{Name: "sessions", Value: uint64(s.Sessions)},
		{Name: "waiting", Value: uint64(s.Waiting)},
		{Name: "opened", Value: s.Opened},
		{Name: "failed", Value: s.Failed},
		{Name: "messages", Value: s.Messages},
		{Name: "bytes", Value: s.Bytes},
		{Name: "tensor_bytes", Value: s.TensorBytes},
		{Name: "descriptors", Value: s.Descriptors},
		{Name: "blocked", Value: s.Blocked},
		{Name: "queued", Value: s.Queued},
		{Name: "paused", Value: s.Paused},
		{Name: "refused", Value: s.Refused},
		{Name: "turns", Value: s.Turns},
	}}
	for _, name := range slices.Sorted(maps.Keys(d.workers)) {
		if len(reply.Counters)+perWorker > wire.MaxCounters {
			break
		}
		w := d.workers[name]
		key := "worker." + name[:min(len(name), wire.MaxName/2)]
		reply.Counters = append(reply.Counters,
			wire.Counter{Name: key + ".pid", Value: uint64(w.who.PID)},
			wire.Counter{Name: key + ".sessions", Value: uint64(len(w.sessions))},
			wire.Counter{Name: key + ".messages", Value: w.messages},
			wire.Counter{Name: key + ".bytes", Value: w.bytes},
			wire.Counter{Name: key + ".queued", Value: uint64(w.queued)})
	}
	p.send(wire.KindStatusReply, wire.AppendStatusReply(nil, &reply), ask.Session, nil)
	if p.queued > d.o.MaxQueued {
		d.misbehaves(p, "asks for Status and does not read the answers")
	}
}
