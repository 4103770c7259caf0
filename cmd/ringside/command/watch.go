package command

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/client"
)

// watchAnswers is how long the commands that watch wait for the dispatcher's first
// answer.
const watchAnswers = 5 * time.Second

// sample is what is known of a dispatcher and its workers at a time.
type sample struct {
	at         time.Time
	dispatcher client.Counters
	workers    map[string]seenWorker // by name
}

// seenWorker is a worker's newest answer, and when it came. answer is nil before the
// first one.
type seenWorker struct {
	answer *client.WorkerReport
	at     time.Time
}

// sampleNow asks the dispatcher and the workers, and returns when all have answered or
// wait is over. For a worker that has not answered, its older answer in last counts; last
// may be nil.
func sampleNow(ctx context.Context, w *client.Monitor, last *sample, wait time.Duration) (*sample, error) {
	s := &sample{at: time.Now(), workers: map[string]seenWorker{}}
	if err := errors.Join(w.AskDispatcher(ctx), w.Ask(ctx, client.Question{})); err != nil {
		return nil, err
	}
	until, cancel := context.WithTimeout(ctx, max(wait, watchAnswers))
	defer cancel()
	fresh := map[string]bool{}
	for s.dispatcher == nil || len(fresh) < len(s.workers) {
		a, err := w.Next(until)
		switch {
		case err != nil && ctx.Err() == nil && until.Err() != nil && s.dispatcher != nil:
			return s, nil
		case err != nil:
			return nil, err
		}
		switch a := a.(type) {
		case client.Counters:
			s.dispatcher = a
			for _, name := range workersOf(a) {
				if _, ok := s.workers[name]; !ok && last != nil {
					s.workers[name] = last.workers[name]
				} else if !ok {
					s.workers[name] = seenWorker{at: s.at}
				}
			}
			// A busy worker does not hold the others up.
			until, cancel = context.WithTimeout(ctx, wait)
			defer cancel()
		case *client.WorkerReport:
			s.workers[a.Worker] = seenWorker{a, time.Now()}
			fresh[a.Worker] = true
		}
	}
	return s, nil
}

// workersOf are the names of the workers that a dispatcher has.
func workersOf(r client.Counters) []string {
	var names []string
	for _, c := range r {
		if name, ok := strings.CutPrefix(c.Name, "worker."); ok {
			if name, ok = strings.CutSuffix(name, ".pid"); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// topReport is what happened between two samples. Rates are per second.
type topReport struct {
	Time       time.Time     `json:"time"`
	Seconds    float64       `json:"seconds"`
	Dispatcher topDispatcher `json:"dispatcher"`
	Workers    []topWorker   `json:"workers"`
	// Sessions has one entry for each worker of a session, the busiest first.
	Sessions []topSession `json:"sessions"`
	// Ops counts instructions of all workers a second, by operation.
	Ops map[string]float64 `json:"ops"`
}

type topDispatcher struct {
	PID         uint64  `json:"pid"`
	Clients     uint64  `json:"clients"`
	Sessions    uint64  `json:"sessions"`
	Waiting     uint64  `json:"waiting"` // sessions without a worker
	Messages    float64 `json:"messages"`
	Bytes       float64 `json:"bytes"`
	TensorBytes float64 `json:"tensor_bytes"` // of these
}

type topWorker struct {
	Name string `json:"name"`
	PID  uint64 `json:"pid"`
	// Silent is in seconds since the last answer; 0 if the worker answered.
	Silent       float64            `json:"silent"`
	Sessions     uint64             `json:"sessions"`
	Busy         float64            `json:"busy"`    // part of the time, 0 to 1
	Waiting      float64            `json:"waiting"` // of this, in collectives
	Runs         float64            `json:"runs"`
	PlanHits     float64            `json:"plan_hits"`      // runs of known programs
	Programs     uint64             `json:"programs"`       // that sessions hold
	ProgramBytes uint64             `json:"program_bytes"`  // of these, encoded
	Plans        uint64             `json:"plans"`          // kept for later sessions too
	PlanBytes    uint64             `json:"plan_bytes"`     // of encoded programs
	Compiled     uint64             `json:"plans_compiled"` // so far
	Shared       uint64             `json:"plans_shared"`   // brought by another session
	Evicted      uint64             `json:"plans_evicted"`  // plans given up for others
	Messages     float64            `json:"messages"`
	Collectives  float64            `json:"collectives"`
	MovedBytes   float64            `json:"moved_bytes"`   // sent to other workers
	Backlog      uint64             `json:"backlog"`       // messages that wait
	BacklogBytes uint64             `json:"backlog_bytes"` // of these
	QueuedBytes  uint64             `json:"queued_bytes"`  // that wait at the dispatcher
	ArenaBytes   uint64             `json:"arena_bytes"`   // of memory for tensors
	ArenaInUse   uint64             `json:"arena_in_use"`
	Ops          map[string]float64 `json:"ops"`
}

type topSession struct {
	ID      uint64  `json:"id"`
	Name    string  `json:"name"`
	Worker  string  `json:"worker"`
	Workers uint32  `json:"workers"`
	Runs    float64 `json:"runs"`
	Busy    float64 `json:"busy"`
	Waiting float64 `json:"waiting"`
	Backlog uint64  `json:"backlog"`
	Bytes   uint64  `json:"bytes"` // of its values, where a quota counts them
}

// rate returns how much a counter grew in a second. A counter of a restarted process
// counts from 0.
func rate(now, before uint64, seconds float64) float64 {
	if now < before {
		before = 0
	}
	if seconds <= 0 {
		return 0
	}
	return float64(now-before) / seconds
}

// compareSamples says what happened from a to b.
func compareSamples(a, b *sample) *topReport {
	seconds := b.at.Sub(a.at).Seconds()
	d := func(name string) float64 { return rate(b.dispatcher.Get(name), a.dispatcher.Get(name), seconds) }
	r := &topReport{Time: b.at, Seconds: seconds, Ops: map[string]float64{}, Workers: []topWorker{}, Sessions: []topSession{},
		Dispatcher: topDispatcher{PID: b.dispatcher.Get("pid"), Clients: b.dispatcher.Get("clients"), Sessions: b.dispatcher.Get("sessions"),
			Waiting: b.dispatcher.Get("waiting"), Messages: d("messages"), Bytes: d("bytes"), TensorBytes: d("tensor_bytes")}}
	for _, name := range slices.Sorted(maps.Keys(b.workers)) {
		now, before := b.workers[name], a.workers[name]
		w := topWorker{Name: name, PID: b.dispatcher.Get("worker." + name + ".pid"), QueuedBytes: b.dispatcher.Get("worker." + name + ".queued"),
			Sessions: b.dispatcher.Get("worker." + name + ".sessions"), Ops: map[string]float64{}}
		switch {
		case now.answer == nil:
			w.Silent = b.at.Sub(a.at).Seconds()
		case now.answer == before.answer:
			w.Silent = b.at.Sub(now.at).Seconds()
		default:
			w.fill(now.answer, before.answer)
			for _, s := range now.answer.Sessions {
				r.Sessions = append(r.Sessions, sessionOf(s, now.answer, before.answer))
			}
		}
		for op, n := range w.Ops {
			r.Ops[op] += n
		}
		r.Workers = append(r.Workers, w)
	}
	slices.SortStableFunc(r.Sessions, func(x, y topSession) int { return cmp.Compare(y.Busy, x.Busy) })
	return r
}

// between returns the time from one answer to the next, by the worker's clock; 0 if there
// is no other one.
func between(now, before *client.WorkerReport) float64 {
	if before == nil || now.Now <= before.Now {
		return 0
	}
	return float64(now.Now-before.Now) / 1e9
}

func (w *topWorker) fill(now, before *client.WorkerReport) {
	seconds := between(now, before)
	before = cmp.Or(before, &client.WorkerReport{})
	r := func(name string) float64 { return rate(now.Counters.Get(name), before.Counters.Get(name), seconds) }
	w.Busy, w.Waiting = min(r("busy_ns")/1e9, 1), min(r("waiting_ns")/1e9, 1)
	w.Runs, w.PlanHits, w.Messages = r("runs"), r("plan_hits"), r("messages")
	w.Programs, w.ProgramBytes = now.Counters.Get("programs_kept"), now.Counters.Get("program_bytes")
	w.Plans, w.PlanBytes = now.Counters.Get("plans"), now.Counters.Get("plan_bytes")
	w.Compiled, w.Shared, w.Evicted = now.Counters.Get("plans_compiled"), now.Counters.Get("plans_shared"), now.Counters.Get("plans_evicted")
	w.Collectives, w.MovedBytes = r("collectives"), r("moved_bytes")
	w.Backlog, w.BacklogBytes = now.Counters.Get("backlog"), now.Counters.Get("backlog_bytes")
	w.ArenaBytes, w.ArenaInUse = now.Counters.Get("arena_bytes"), now.Counters.Get("arena_in_use")
	for _, c := range now.Counters {
		if op, ok := strings.CutPrefix(c.Name, "op."); ok {
			if n := rate(c.Value, before.Counters.Get(c.Name), seconds); n > 0 {
				w.Ops[op] = n
			}
		}
	}
}

// sessionOf is what a worker did for a session.
func sessionOf(s client.WorkerSession, now, before *client.WorkerReport) topSession {
	var old client.WorkerSession
	if before != nil {
		if i := slices.IndexFunc(before.Sessions, func(x client.WorkerSession) bool { return x.ID == s.ID }); i >= 0 {
			old = before.Sessions[i]
		}
	}
	seconds := between(now, before)
	return topSession{ID: s.ID, Name: s.Name, Worker: now.Worker, Workers: s.Workers, Runs: rate(s.Runs, old.Runs, seconds),
		Busy: min(rate(s.Busy, old.Busy, seconds)/1e9, 1), Waiting: min(rate(s.Waiting, old.Waiting, seconds)/1e9, 1),
		Backlog: s.Backlog, Bytes: s.Bytes}
}
