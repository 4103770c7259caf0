package dispatcher

import (
	"maps"
	"os"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// status answers a Status with the trainings, if it asks for them, and the counters:
// those of Stats, then for each worker, by name, its pid, its open sessions, the messages
// and bytes forwarded to it, the bytes that wait for room in its queue, its device, and
// the device's memory. A worker has the counter busy while a program keeps its sessions
// waiting, and far if it shares no memory with this host; its pid may then be one of
// another host.
func (d *Dispatcher) status(p *peer, m *ipc.Message) {
	var ask wire.Status
	if !d.parse(p, m, &ask) {
		return
	}
	if ask.Trainings {
		d.trainings.tell(p, d.peers.all)
	}
	s := d.Stats()
	reply := wire.StatusReply{Counters: []wire.Counter{
		{Name: metrics.PID, Value: uint64(os.Getpid())},
		{Name: metrics.Clients, Value: uint64(s.Clients)},
		{Name: metrics.Workers, Value: uint64(s.Workers)},
		{Name: metrics.Sessions, Value: uint64(s.Sessions)},
		{Name: metrics.Waiting, Value: uint64(s.Waiting)},
		{Name: metrics.Opened, Value: s.Opened},
		{Name: metrics.Failed, Value: s.Failed},
		{Name: metrics.Messages, Value: s.Messages},
		{Name: metrics.Bytes, Value: s.Bytes},
		{Name: metrics.TensorBytes, Value: s.TensorBytes},
		{Name: metrics.Descriptors, Value: s.Descriptors},
		{Name: metrics.Blocked, Value: s.Blocked},
		{Name: metrics.Queued, Value: s.Queued},
		{Name: metrics.Paused, Value: s.Paused},
		{Name: metrics.Refused, Value: s.Refused},
		{Name: metrics.Turns, Value: s.Turns},
	}}
	for _, name := range slices.Sorted(maps.Keys(d.workers)) {
		w := d.workers[name]
		key := func(counter string) string { return metrics.OfWorker(name, counter) }
		counters := []wire.Counter{
			{Name: key(metrics.PID), Value: uint64(w.who.PID)},
			{Name: key(metrics.Sessions), Value: uint64(len(w.sessions))},
			{Name: key(metrics.Messages), Value: w.messages},
			{Name: key(metrics.Bytes), Value: w.bytes},
			{Name: key(metrics.Queued), Value: uint64(w.queued)},
		}
		if w.busy() {
			counters = append(counters, wire.Counter{Name: key(metrics.Occupied), Value: 1})
		}
		if dev := w.device; dev != nil {
			counters = append(counters, wire.Counter{Name: metrics.OfDevice(name, dev.Info.Name), Value: uint64(dev.Info.Kind)},
				wire.Counter{Name: key(metrics.DeviceBytes), Value: dev.Info.Bytes}, wire.Counter{Name: key(metrics.DeviceUsed), Value: dev.Used})
		}
		if w.far() {
			counters = append(counters, wire.Counter{Name: key(metrics.Far), Value: 1})
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
