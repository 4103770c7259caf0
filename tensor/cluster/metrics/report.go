package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Sample has the newest answers of a dispatcher and its workers at a time.
type Sample struct {
	At         time.Time
	Dispatcher wire.Counters
	Workers    map[string]Answer // by name
	Trainings  []Training        // by number
}

// Answer is a worker's newest answer, nil before the first, and when it came.
type Answer struct {
	*wire.Watched
	At time.Time
}

// Report tells what happened between two samples. Rates are per second.
type Report struct {
	Time       time.Time  `json:"time"`
	Seconds    float64    `json:"seconds"`
	Dispatcher Dispatcher `json:"dispatcher"`
	Workers    []Worker   `json:"workers"`
	// Sessions has one entry for each worker of a session, the busiest first.
	Sessions []Session `json:"sessions"`
	// Ops counts instructions of all workers a second, by operation.
	Ops map[string]float64 `json:"ops"`
	// Trainings are the runs that clients tell of, and some that are over.
	Trainings []Training `json:"trainings"`
}

// Dispatcher is what the dispatcher did between the samples.
type Dispatcher struct {
	PID         uint64  `json:"pid"`
	Clients     uint64  `json:"clients"`
	Sessions    uint64  `json:"sessions"`
	Waiting     uint64  `json:"waiting"` // sessions without a worker
	Messages    float64 `json:"messages"`
	Bytes       float64 `json:"bytes"`
	TensorBytes float64 `json:"tensor_bytes"` // of these
}

// Worker is what a worker did between the samples.
type Worker struct {
	Name string `json:"name"`
	PID  uint64 `json:"pid"`
	// Device is the name of what it computes on, DeviceBytes its memory, 0 where that is
	// not known, and DeviceUsed what values use of it.
	Device      string `json:"device"`
	DeviceBytes uint64 `json:"device_bytes"`
	DeviceUsed  uint64 `json:"device_used"`
	// Silent is in seconds since the last answer; 0 if the worker answered.
	Silent       float64 `json:"silent"`
	Sessions     uint64  `json:"sessions"`
	Busy         float64 `json:"busy"`    // part of the time, 0 to 1
	Waiting      float64 `json:"waiting"` // of this, in collectives
	Runs         float64 `json:"runs"`
	PlanHits     float64 `json:"plan_hits"`      // runs of known programs
	Programs     uint64  `json:"programs"`       // that sessions hold
	ProgramBytes uint64  `json:"program_bytes"`  // of these, encoded
	Plans        uint64  `json:"plans"`          // kept for later sessions too
	PlanBytes    uint64  `json:"plan_bytes"`     // of encoded programs
	Compiled     uint64  `json:"plans_compiled"` // so far
	Shared       uint64  `json:"plans_shared"`   // brought by another session
	Evicted      uint64  `json:"plans_evicted"`  // plans given up for others
	Messages     float64 `json:"messages"`
	Collectives  float64 `json:"collectives"`
	MovedBytes   float64 `json:"moved_bytes"`   // sent to other workers
	Backlog      uint64  `json:"backlog"`       // messages that wait
	BacklogBytes uint64  `json:"backlog_bytes"` // of these
	QueuedBytes  uint64  `json:"queued_bytes"`  // that wait at the dispatcher
	ArenaBytes   uint64  `json:"arena_bytes"`   // of memory for tensors
	ArenaInUse   uint64  `json:"arena_in_use"`
	// GPU is nil for a worker on cores, and for one that is silent.
	GPU *GPU               `json:"gpu,omitempty"`
	Ops map[string]float64 `json:"ops"`
}

// GPU is what a worker had its GPU do between the samples. Bytes are copied between the
// host and the device.
type GPU struct {
	Launches  float64 `json:"launches"`   // of kernels, but for those in graphs
	Replays   float64 `json:"replays"`    // of graphs
	Captures  uint64  `json:"captures"`   // of graphs, so far
	HostSteps float64 `json:"host_steps"` // steps without a kernel
	UpBytes   float64 `json:"up_bytes"`
	DownBytes float64 `json:"down_bytes"`
	Calls     float64 `json:"driver_calls"`
	RunCalls  float64 `json:"calls_per_run"`
	Opens     uint64  `json:"ipc_opens"` // so far
}

// Session is what a worker did for a session between the samples.
type Session struct {
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

// Compare returns what happened from a to b.
func Compare(a, b *Sample) *Report {
	seconds := b.At.Sub(a.At).Seconds()
	d := func(name string) float64 { return rate(b.Dispatcher.Get(name), a.Dispatcher.Get(name), seconds) }
	r := &Report{Time: b.At, Seconds: seconds, Ops: map[string]float64{}, Workers: []Worker{}, Sessions: []Session{},
		Dispatcher: Dispatcher{PID: b.Dispatcher.Get(PID), Clients: b.Dispatcher.Get(Clients), Sessions: b.Dispatcher.Get(Sessions),
			Waiting: b.Dispatcher.Get(Waiting), Messages: d(Messages), Bytes: d(Bytes), TensorBytes: d(TensorBytes)}}
	for _, name := range slices.Sorted(maps.Keys(b.Workers)) {
		now, before := b.Workers[name], a.Workers[name]
		w := Worker{Name: name, PID: b.Dispatcher.Get(OfWorker(name, PID)), QueuedBytes: b.Dispatcher.Get(OfWorker(name, Queued)),
			Device: DeviceOf(b.Dispatcher, name), DeviceBytes: b.Dispatcher.Get(OfWorker(name, DeviceBytes)), DeviceUsed: b.Dispatcher.Get(OfWorker(name, DeviceUsed)),
			Sessions: b.Dispatcher.Get(OfWorker(name, Sessions)), Ops: map[string]float64{}}
		switch {
		case now.Watched == nil:
			w.Silent = b.At.Sub(a.At).Seconds()
		case now.Watched == before.Watched:
			w.Silent = b.At.Sub(now.At).Seconds()
		default:
			w.fill(now.Watched, before.Watched)
			for _, s := range now.Sessions {
				r.Sessions = append(r.Sessions, sessionOf(s, now.Watched, before.Watched))
			}
		}
		for op, n := range w.Ops {
			r.Ops[op] += n
		}
		r.Workers = append(r.Workers, w)
	}
	r.Trainings = append([]Training{}, b.Trainings...)
	slices.SortStableFunc(r.Sessions, func(x, y Session) int { return cmp.Compare(y.Busy, x.Busy) })
	return r
}

// between returns the time from one answer to the next, by the worker's clock; 0 if there
// is no other one.
func between(now, before *wire.Watched) float64 {
	if before == nil || now.Now <= before.Now {
		return 0
	}
	return float64(now.Now-before.Now) / 1e9
}

// fill sets the figures that come from the worker's answers. before may be nil.
func (w *Worker) fill(now, before *wire.Watched) {
	seconds := between(now, before)
	before = cmp.Or(before, &wire.Watched{})
	r := func(name string) float64 { return rate(now.Counters.Get(name), before.Counters.Get(name), seconds) }
	w.Busy, w.Waiting = min(r(BusyTime)/1e9, 1), min(r(WaitingTime)/1e9, 1)
	w.Runs, w.PlanHits, w.Messages = r(Runs), r(PlanHits), r(Messages)
	w.Programs, w.ProgramBytes = now.Counters.Get(ProgramsKept), now.Counters.Get(ProgramBytes)
	w.Plans, w.PlanBytes = now.Counters.Get(Plans), now.Counters.Get(PlanBytes)
	w.Compiled, w.Shared, w.Evicted = now.Counters.Get(PlansCompiled), now.Counters.Get(PlansShared), now.Counters.Get(PlansEvicted)
	w.Collectives, w.MovedBytes = r(Collectives), r(MovedBytes)
	w.Backlog, w.BacklogBytes = now.Counters.Get(Backlog), now.Counters.Get(BacklogBytes)
	w.DeviceUsed = now.Counters.Get(DeviceUsed)
	w.ArenaBytes, w.ArenaInUse = now.Counters.Get(ArenaBytes), now.Counters.Get(ArenaInUse)
	if now.Counters.Get(DriverCalls)+now.Counters.Get(UpBytes) > 0 {
		w.GPU = &GPU{Launches: r(Launches), Replays: r(Replays), Captures: now.Counters.Get(Captures), HostSteps: r(HostSteps), UpBytes: r(UpBytes), DownBytes: r(DownBytes),
			Calls: r(DriverCalls), Opens: now.Counters.Get(IPCOpens)}
		if w.Runs > 0 {
			w.GPU.RunCalls = w.GPU.Calls / w.Runs
		}
	}
	for _, c := range now.Counters {
		if op, ok := strings.CutPrefix(c.Name, opPrefix); ok {
			if n := rate(c.Value, before.Counters.Get(c.Name), seconds); n > 0 {
				w.Ops[op] = n
			}
		}
	}
}

// sessionOf returns what a worker did for a session.
func sessionOf(s wire.WatchedSession, now, before *wire.Watched) Session {
	var old wire.WatchedSession
	if before != nil {
		if i := slices.IndexFunc(before.Sessions, func(x wire.WatchedSession) bool { return x.ID == s.ID }); i >= 0 {
			old = before.Sessions[i]
		}
	}
	seconds := between(now, before)
	return Session{ID: s.ID, Name: s.Name, Worker: now.Worker, Workers: s.Workers, Runs: rate(s.Runs, old.Runs, seconds),
		Busy: min(rate(s.Busy, old.Busy, seconds)/1e9, 1), Waiting: min(rate(s.Waiting, old.Waiting, seconds)/1e9, 1),
		Backlog: s.Backlog, Bytes: s.Bytes}
}
