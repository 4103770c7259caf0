package dispatcher

import (
	"maps"
	"os"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// status answers a Status with the counters: those of Stats, then for each worker, by
// name, its pid, its open sessions, the messages and bytes forwarded to it, and the bytes
// that wait for room in its queue. A worker that shares no memory with this host has the
// counter far; its pid may be one of another host.
func (d *Dispatcher) status(p *peer, m *ipc.Message) {
	var ask wire.Status
	if !d.parse(p, m, &ask) {
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
		w := d.workers[name]
		key := "worker." + name[:min(len(name), wire.MaxName/2)]
		counters := []wire.Counter{
			{Name: key + ".pid", Value: uint64(w.who.PID)},
			{Name: key + ".sessions", Value: uint64(len(w.sessions))},
			{Name: key + ".messages", Value: w.messages},
			{Name: key + ".bytes", Value: w.bytes},
			{Name: key + ".queued", Value: uint64(w.queued)},
		}
		if w.far() {
			counters = append(counters, wire.Counter{Name: key + ".far", Value: 1})
		}
		if len(reply.Counters)+len(counters) > wire.MaxCounters {
			break
		}
		reply.Counters = append(reply.Counters, counters...)
	}
	p.send(wire.KindStatusReply, wire.Append(nil, &reply), ask.Session, nil)
	if p.queued > d.o.MaxQueued {
		d.misbehaves(p, "asks for Status and does not read the answers")
	}
}
