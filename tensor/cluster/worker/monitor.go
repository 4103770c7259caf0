package worker

import (
	"encoding/binary"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
	"github.com/ringside-go/ringside/tensor/device"
)

const (
	// watchFor is how long a worker measures after the last Watch message.
	watchFor = 10 * time.Second

	// logSize is the number of events that are kept: the most recent ones.
	logSize = 1 << 16
)

// monitor measures what the worker does while a client watches it. While none does, a
// message costs one test of on, and a program one addition. It belongs to the worker's
// goroutine.
type monitor struct {
	on            bool
	until         time.Time     // on ends then
	epoch         time.Time     // of the first Watch
	busy, waiting time.Duration // spent on messages; of this, in collectives
	messages      uint64
	ops           opCounts // of forgotten programs
	hits          uint64   // how often forgotten programs ran again
	traffic       traffic  // of sessions that have ended

	log  []wire.Event // a ring: event i is at i%logSize; nil while none is wanted
	told []wire.Event // of the last answer; memory for the next one
	next uint64       // number of the next event
	from uint64       // number of the oldest event that is kept

	steps []device.Step // of the program that runs
}

// usage is what is measured of one session.
type usage struct {
	runs          uint64       // counted always
	numbers       wire.Numbers // of the client's messages, counted always
	number        uint32       // of the message that is handled; 0 for none
	busy, waiting time.Duration
}

// traffic counts what a session's workers did together, whether a client watches or not.
type traffic struct {
	calls, moved, rewritten uint64 // collectives, bytes sent in them, programs rewritten
	byPeer, byHost          uint64 // sends to other stages, by GPUs and by host memory
}

func (t *traffic) add(o traffic) {
	t.calls, t.moved, t.rewritten = t.calls+o.calls, t.moved+o.moved, t.rewritten+o.rewritten
	t.byPeer, t.byHost = t.byPeer+o.byPeer, t.byHost+o.byHost
}

// opCounts counts the instructions that ran, by operation.
type opCounts []uint64

// add counts the instructions of a program that ran so many times. p may be nil.
func (c *opCounts) add(p *tensor.Program, runs uint64) {
	if p == nil || runs == 0 {
		return
	}
	for i := range p.Instrs {
		op := int(p.Instrs[i].Op)
		if op >= len(*c) {
			*c = append(*c, make([]uint64, op+1-len(*c))...)
		}
		(*c)[op] += runs
	}
}

// forgotten keeps the counts of a program that the worker forgets.
func (m *monitor) forgotten(p *tensor.Program, runs uint64) {
	m.ops.add(p, runs)
	m.hits += max(runs, 1) - 1
}

// now returns the time while the worker measures, otherwise zero.
func (m *monitor) now() (t time.Time) {
	if m.on {
		t = time.Now()
	}
	return t
}

// message notes that a message of n bytes was handled. u belongs to its session; nil if
// that has ended. If it was handled aside, a program ran meanwhile: that one's message
// counts as the work, and has the number of u.
func (m *monitor) message(u *usage, aside bool, began time.Time, kind uint32, session uint64, n int) {
	end := time.Now()
	took := end.Sub(began)
	m.messages++
	event, number := wire.EventAside, uint32(0)
	if !aside {
		event = wire.EventMessage
		m.busy += took
		if u != nil {
			u.busy += took
			number, u.number = u.number, 0
		}
	}
	m.event(event, session, began, took, wire.Numbered(kind, number), uint64(n))
	if end.After(m.until) {
		m.on, m.log, m.told = false, nil, nil
	}
}

// clock returns t in nanoseconds since 1970. The wall clock is read once, at the first
// Watch: differences between times are those of the monotonic clock.
func (m *monitor) clock(t time.Time) uint64 {
	if m.epoch.IsZero() {
		m.epoch = t
	}
	return uint64(m.epoch.UnixNano() + int64(t.Sub(m.epoch)))
}

// event keeps an event if events are wanted.
func (m *monitor) event(kind wire.EventKind, session uint64, began time.Time, took time.Duration, what, bytes uint64) {
	if m.log == nil {
		return
	}
	m.log[m.next%logSize] = wire.Event{Kind: kind, Session: session, Begin: m.clock(began),
		Took: uint64(max(took, 0)), What: what, Bytes: bytes}
	m.next++
	m.from = max(m.from, m.next-min(m.next, logSize))
}

// program notes that a program ran, and its steps.
func (m *monitor) program(session uint64, began time.Time, hash tensor.Hash, instrs int) {
	took := time.Since(began)
	for i := range m.steps {
		s := &m.steps[i]
		if m.event(wire.EventStep, session, s.Began, s.Took, wire.PackOps(s.Ops), uint64(s.Bytes)); m.log != nil {
			m.log[(m.next-1)%logSize].Shape = wire.PackShape(s.DType, s.Shape)
		}
	}
	m.event(wire.EventProgram, session, began, took, hashName(hash), uint64(instrs))
}

// hashName returns the part of a program's hash that events have.
func hashName(hash tensor.Hash) uint64 { return binary.BigEndian.Uint64(hash[:8]) }

// compiled notes that a program was made ready to run. began is zero if the worker did
// not measure then.
func (m *monitor) compiled(session uint64, began time.Time, hash tensor.Hash, instrs int) {
	if !began.IsZero() {
		m.event(wire.EventCompile, session, began, time.Since(began), hashName(hash), uint64(instrs))
	}
}

// step keeps a step of the program that runs.
func (m *monitor) step(s device.Step) { m.steps = append(m.steps, s) }

// collective notes that a collective is over which began at began and for which the
// worker has waited since asked. Both are zero if the worker did not measure then.
func (m *monitor) collective(session uint64, u *usage, event wire.EventKind, kind uint64, began, asked time.Time, moved int64) {
	if !m.on || began.IsZero() || asked.IsZero() {
		return
	}
	end := time.Now()
	took := end.Sub(asked)
	m.waiting += took
	u.waiting += took
	m.event(event, session, began, end.Sub(began), kind, uint64(moved))
}

// start begins or prolongs measuring.
func (m *monitor) start(events bool) (now time.Time) {
	now = time.Now()
	m.on, m.until = true, now.Add(watchFor)
	if events && m.log == nil {
		m.log, m.from = make([]wire.Event, logSize), m.next
	}
	return now
}

// events returns the events from number since on, at most limit, in memory that the next
// call uses again, the number of the first one and whether there are more.
func (m *monitor) events(since uint64, limit int) (out []wire.Event, first uint64, more bool) {
	first = min(max(since, m.from), m.next)
	end := min(m.next, first+uint64(limit))
	m.told = m.told[:0]
	for i := first; i < end; {
		part := m.log[i%logSize:]
		part = part[:min(uint64(len(part)), end-i)]
		m.told = append(m.told, part...)
		i += uint64(len(part))
	}
	return m.told, first, end < m.next
}
