package worker

import (
	"cmp"
	"context"
	"slices"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
)

// answerWatch answers a Watch message with the worker's counters and events, and measures
// from now on.
func (w *Worker) answerWatch(ctx context.Context, m *ipc.Message) error {
	var ask wire.Watch
	if err := wire.Parse(m.Body, &ask); err != nil {
		return err
	}
	now := w.monitor.start(ask.Events)
	reply := wire.Watched{Ask: ask.Ask, Worker: w.name, Now: w.monitor.clock(now), Counters: w.watchedCounters(), Sessions: w.watchedSessions()}
	if ask.Events {
		reply.Events, reply.First, reply.More = w.monitor.events(ask.Since, wire.MaxEvents)
	}
	return w.out.send(ctx, wire.KindWatched, &reply)
}

// answerShow answers a Show message with a part of a program of a session that this
// worker has.
func answerShow(ctx context.Context, w *Worker, m *ipc.Message) error {
	var ask wire.Show
	if err := wire.Parse(m.Body, &ask); err != nil {
		return err
	}
	reply := wire.Shown{Ask: ask.Ask, Of: ask.Of, Worker: w.name}
	if s := w.sessions[ask.Of]; s != nil {
		c := s.core()
		reply.Name, reply.Workers, reply.Programs = c.name, uint32(max(c.workers, 1)), uint32(len(c.programs.byHash))
		if hash, p := c.programs.shown(tensor.Hash(ask.Hash)); p != nil {
			encoded := p.parsed.Append(nil)
			if int(ask.Off) <= len(encoded) {
				reply.Hash, reply.Runs = wire.Hash(hash), p.runs
				reply.Total, reply.Off = uint32(len(encoded)), ask.Off
				reply.Part = encoded[ask.Off:][:min(wire.MaxShown, len(encoded)-int(ask.Off))]
			}
		}
	}
	return w.out.send(ctx, wire.KindShown, &reply)
}

// watchedCounters returns the worker's counters. Those of operations come last, as
// op.NAME.
func (w *Worker) watchedCounters() []wire.Counter {
	st, dev := w.Stats(), w.dev.Stats()
	ops, hits, done := slices.Clone(w.monitor.ops), w.monitor.hits, w.monitor.traffic
	var backlog, backlogBytes, kept, keptBytes uint64
	for _, s := range w.sessions {
		c := s.core()
		hits += c.programs.count(&ops)
		kept += uint64(len(c.programs.byHash))
		keptBytes += uint64(c.programs.bytes)
		backlog += uint64(len(c.backlog.waiting))
		backlogBytes += uint64(c.backlog.bytes)
		done.add(c.traffic)
	}
	out := []wire.Counter{
		{Name: metrics.Sessions, Value: uint64(st.Sessions)}, {Name: metrics.Opened, Value: st.Opened}, {Name: metrics.Failed, Value: st.Failed},
		{Name: metrics.Runs, Value: st.Runs}, {Name: metrics.Errors, Value: st.Errors},
		{Name: metrics.Programs, Value: st.Programs}, {Name: metrics.PlanHits, Value: hits},
		{Name: metrics.Imports, Value: st.Imports}, {Name: metrics.Results, Value: st.Results},
		{Name: metrics.Collectives, Value: done.calls}, {Name: metrics.MovedBytes, Value: done.moved}, {Name: metrics.Rewritten, Value: done.rewritten},
		{Name: metrics.TransfersPeer, Value: done.byPeer}, {Name: metrics.TransfersHost, Value: done.byHost},
		{Name: metrics.Messages, Value: w.monitor.messages},
		{Name: metrics.BusyTime, Value: uint64(w.monitor.busy)}, {Name: metrics.WaitingTime, Value: uint64(w.monitor.waiting)},
		{Name: metrics.Backlog, Value: backlog}, {Name: metrics.BacklogBytes, Value: backlogBytes},
		{Name: metrics.ArenaBytes, Value: uint64(dev.Arena.Bytes)}, {Name: metrics.ArenaInUse, Value: uint64(dev.Arena.InUse)},
		{Name: metrics.DeviceUsed, Value: uint64(dev.Values.InUse)},
		{Name: metrics.ProgramsKept, Value: kept}, {Name: metrics.ProgramBytes, Value: keptBytes},
		{Name: metrics.Plans, Value: uint64(dev.Plans)}, {Name: metrics.PlanBytes, Value: uint64(dev.PlanBytes)},
		{Name: metrics.PlansShared, Value: dev.Hits}, {Name: metrics.PlansCompiled, Value: dev.Misses}, {Name: metrics.PlansEvicted, Value: dev.Evicted},
		{Name: metrics.Launches, Value: dev.Work.Launches}, {Name: metrics.Captures, Value: dev.Work.Captures}, {Name: metrics.Replays, Value: dev.Work.Replays},
		{Name: metrics.HostSteps, Value: dev.Work.HostSteps},
		{Name: metrics.UpBytes, Value: dev.Work.Up}, {Name: metrics.DownBytes, Value: dev.Work.Down},
		{Name: metrics.DriverCalls, Value: dev.Work.Calls}, {Name: metrics.IPCOpens, Value: dev.Work.Opens},
	}
	for op, n := range ops {
		if n > 0 && len(out) < wire.MaxCounters {
			out = append(out, wire.Counter{Name: metrics.OfOp(tensor.Op(op).String()), Value: n})
		}
	}
	for _, s := range w.sessions {
		if s, ok := s.(*shared); ok && s.open() {
			paths := s.paths()
			for to := range s.team.size() {
				if reach, ok := paths[to]; ok && len(out) < wire.MaxCounters {
					out = append(out, wire.Counter{Name: metrics.OfPath(s.id, s.rank, to), Value: reach.Value()})
				}
			}
		}
	}
	return out
}

// watchedSessions returns the sessions, the busiest first.
func (w *Worker) watchedSessions() []wire.WatchedSession {
	var out []wire.WatchedSession
	for _, s := range w.sessions {
		c := s.core()
		x := wire.WatchedSession{ID: c.id, Name: c.name, Workers: uint32(c.workers), Runs: c.usage.runs,
			Busy: uint64(c.usage.busy), Waiting: uint64(c.usage.waiting), Backlog: uint64(len(c.backlog.waiting))}
		if l, ok := c.space.(*limited); ok {
			x.Bytes = uint64(l.used)
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b wire.WatchedSession) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), wire.MaxWatched)]
}
