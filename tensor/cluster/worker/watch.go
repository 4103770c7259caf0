package worker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ringside-go/ringside/collective/plan"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

const (
	// watchFor is how long a worker measures after it was last asked.
	watchFor = 10 * time.Second

	// logSize is how many events are kept: the last ones.
	logSize = 1 << 16
)

// watching is what the worker measures while somebody looks. While nobody does, a message costs the question whether on is set, and a
// program one addition. It belongs to the worker's goroutine.
type watching struct {
	on            bool
	until         time.Time     // on is
	epoch         time.Time     // when somebody looked first
	busy, waiting time.Duration // with messages; of this, in collectives
	messages      uint64
	ops           opCounts // of programs that were forgotten
	hits          uint64   // of these, times that they ran again

	calls, moved, rewritten uint64 // of sessions that are over

	log  []wire.Event // a ring of logSize: event i is at i%logSize; nil while nobody wants it
	next uint64       // number of the next event
	from uint64       // and of the oldest that was kept
}

// watchedSession is what is measured of one session.
type watchedSession struct {
	runs          uint64 // always
	busy, waiting time.Duration
}

// opCounts counts instructions that were run, by operation.
type opCounts []uint64

// add adds those of a program as often as it was run.
func (c *opCounts) add(p *program) {
	parsed := p.parsed
	if parsed == nil && p.Program != nil {
		parsed = p.Parsed()
	}
	if parsed == nil || p.runs == 0 {
		return
	}
	for i := range parsed.Instrs {
		op := int(parsed.Instrs[i].Op)
		if op >= len(*c) {
			*c = append(*c, make([]uint64, op+1-len(*c))...)
		}
		(*c)[op] += p.runs
	}
}

// forgotten keeps the counts of a program that is.
func (w *watching) forgotten(p *program) {
	w.ops.add(p)
	w.hits += max(p.runs, 1) - 1
}

// fold keeps the counts of a session that ends.
func (w *watching) fold(s *session) {
	for _, p := range s.programs {
		w.forgotten(p)
	}
	if s.shared != nil {
		w.calls, w.moved, w.rewritten = w.calls+s.calls, w.moved+s.moved, w.rewritten+s.rewritten
	}
}

// now is the time, if somebody looks.
func (w *watching) now() (t time.Time) {
	if w.on {
		t = time.Now()
	}
	return t
}

// message notes that a message was handled.
func (w *watching) message(of *Worker, began time.Time, kind uint32, session uint64, n int) {
	end := time.Now()
	took := end.Sub(began)
	w.busy += took
	w.messages++
	if s := of.sessions[session]; s != nil {
		s.seen.busy += took
	}
	w.event(wire.EventMessage, session, began, took, uint64(kind), uint64(n))
	if end.After(w.until) {
		w.on, w.log = false, nil
	}
}

// clock is a time in nanoseconds since 1970, as far as the clock told it when somebody looked first: differences are those of a clock that nobody
// sets.
func (w *watching) clock(t time.Time) uint64 {
	if w.epoch.IsZero() {
		w.epoch = t
	}
	return uint64(w.epoch.UnixNano() + int64(t.Sub(w.epoch)))
}

// event writes one down, if somebody wants it.
func (w *watching) event(kind wire.EventKind, session uint64, began time.Time, took time.Duration, what, bytes uint64) {
	if w.log == nil {
		return
	}
	w.log[w.next%logSize] = wire.Event{Kind: kind, Session: session, Begin: w.clock(began), Took: uint64(max(took, 0)), What: what, Bytes: bytes}
	w.next++
	w.from = max(w.from, w.next-min(w.next, logSize))
}

// runProgram runs a program of this session.
func (s *session) runProgram(p Program, hash tensor.Hash, base uint64, inputs []uint64, scalars []float64) error {
	w := &s.w.watch
	if w.log == nil {
		return s.space.Run(p, base, inputs, scalars)
	}
	began := time.Now()
	err := s.space.Run(p, base, inputs, scalars)
	name := uint64(0)
	for _, b := range hash[:8] {
		name = name<<8 | uint64(b)
	}
	w.event(wire.EventProgram, s.id, began, time.Since(began), name, uint64(len(p.Parsed().Instrs)))
	return err
}

// waited notes that a collective is over, for which this goroutine waited since asked.
func (s *session) waited(kind plan.Kind, u *underway, asked time.Time) {
	w := &s.w.watch
	if !w.on || u.began.IsZero() || asked.IsZero() {
		return // it began before somebody looked
	}
	end := time.Now()
	took := end.Sub(asked)
	w.waiting += took
	s.seen.waiting += took
	event := wire.EventCollective
	if u.work != nil {
		event = wire.EventOverlapped
	}
	w.event(event, s.id, u.began, end.Sub(u.began), uint64(kind), uint64(u.moved))
}

// answerWatch says what the worker does, and measures from now on.
func (w *Worker) answerWatch(ctx context.Context, m *ipc.Message) error {
	var ask wire.Watch
	if err := wire.ParseWatch(m.Body, &ask); err != nil {
		return err
	}
	now := time.Now()
	w.watch.on, w.watch.until = true, now.Add(watchFor)
	if ask.Events && w.watch.log == nil {
		w.watch.log, w.watch.from = make([]wire.Event, logSize), w.watch.next
	}
	reply := wire.Watched{Ask: ask.Ask, Worker: w.o.Name, Now: w.watch.clock(now), Counters: w.counters(), Sessions: w.watchedSessions()}
	if ask.Events {
		reply.First = min(max(ask.Since, w.watch.from), w.watch.next)
		for i := reply.First; i < w.watch.next && len(reply.Events) < wire.MaxEvents; i++ {
			reply.Events = append(reply.Events, w.watch.log[i%logSize])
		}
		reply.More = reply.First+uint64(len(reply.Events)) < w.watch.next
	}
	return w.send(ctx, wire.KindWatched, reply.Size(), func(dst []byte) []byte { return wire.AppendWatched(dst, &reply) })
}

// counters are the worker's, those of its operations behind the others, as op.NAME.
func (w *Worker) counters() []wire.Counter {
	st, arena := w.Stats(), w.dev.Arena().Stats()
	ops, hits := slices.Clone(w.watch.ops), w.watch.hits
	var calls, moved, rewritten, backlog, backlogB, kept, keptB uint64
	for _, s := range w.sessions {
		for _, p := range s.programs {
			ops.add(p)
			hits += max(p.runs, 1) - 1
		}
		kept += uint64(len(s.programs))
		keptB += uint64(s.bytes)
		backlog += uint64(len(s.backlog))
		backlogB += uint64(s.backlogB)
		if s.shared != nil {
			calls, moved, rewritten = calls+s.calls, moved+s.moved, rewritten+s.rewritten
		}
	}
	out := []wire.Counter{
		{Name: "sessions", Value: uint64(st.Sessions)}, {Name: "opened", Value: st.Opened}, {Name: "failed", Value: st.Failed},
		{Name: "runs", Value: st.Runs}, {Name: "errors", Value: st.Errors}, {Name: "programs", Value: st.Programs}, {Name: "plan_hits", Value: hits},
		{Name: "imports", Value: st.Imports}, {Name: "results", Value: st.Results},
		{Name: "collectives", Value: w.watch.calls + calls}, {Name: "moved_bytes", Value: w.watch.moved + moved}, {Name: "rewritten", Value: w.watch.rewritten + rewritten},
		{Name: "messages", Value: w.watch.messages}, {Name: "busy_ns", Value: uint64(w.watch.busy)}, {Name: "waiting_ns", Value: uint64(w.watch.waiting)},
		{Name: "backlog", Value: backlog}, {Name: "backlog_bytes", Value: backlogB},
		{Name: "arena_bytes", Value: uint64(arena.Bytes)}, {Name: "arena_in_use", Value: uint64(arena.InUse)},
	}
	out = append(out, wire.Counter{Name: "programs_kept", Value: kept}, wire.Counter{Name: "program_bytes", Value: keptB})
	if c, ok := w.dev.(PlanCache); ok {
		p := c.PlanStats()
		out = append(out, wire.Counter{Name: "plans", Value: uint64(p.Plans)}, wire.Counter{Name: "plan_bytes", Value: uint64(p.Bytes)},
			wire.Counter{Name: "plans_shared", Value: p.Hits}, wire.Counter{Name: "plans_compiled", Value: p.Misses}, wire.Counter{Name: "plans_evicted", Value: p.Evicted})
	}
	for op, n := range ops {
		if n > 0 && len(out) < wire.MaxCounters {
			out = append(out, wire.Counter{Name: "op." + tensor.Op(op).String(), Value: n})
		}
	}
	return out
}

// watchedSessions are the sessions, those that worked most first.
func (w *Worker) watchedSessions() []wire.WatchedSession {
	var out []wire.WatchedSession
	for _, s := range w.sessions {
		x := wire.WatchedSession{ID: s.id, Name: s.name, Workers: 1, Runs: s.seen.runs, Busy: uint64(s.seen.busy),
			Waiting: uint64(s.seen.waiting), Backlog: uint64(len(s.backlog))}
		if s.shared != nil {
			x.Workers = uint32(s.size())
		}
		if l, ok := s.space.(*limited); ok {
			x.Bytes = uint64(max(l.used, 0))
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b wire.WatchedSession) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), wire.MaxWatched)]
}
