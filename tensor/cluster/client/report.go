package client

import (
	"slices"

	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Counter is a named number: "clients", "workers", "messages", "worker.w0.runs".
type Counter struct {
	Name  string
	Value uint64
}

// Counters is a list of counters.
type Counters []Counter

// Get returns the value of the counter of that name, 0 when there is none.
func (c Counters) Get(name string) uint64 {
	i := slices.IndexFunc(c, func(x Counter) bool { return x.Name == name })
	if i < 0 {
		return 0
	}
	return c[i].Value
}

// WorkerReport is a worker's answer to [Watcher.Ask].
type WorkerReport struct {
	Worker   string
	Now      uint64 // the worker's clock in nanoseconds since 1970, as are the events'
	Counters Counters
	Sessions []WorkerSession
	First    uint64 // number of the first event; the worker no longer has those before
	More     bool   // there are more events already
	Events   []Event
}

// WorkerSession is a worker's record of one of its sessions. Times are nanoseconds during
// which the worker was watched.
type WorkerSession struct {
	ID      uint64 // the dispatcher's number
	Name    string // as the client gave it
	Workers uint32 // number of workers that run it together
	Runs    uint64 // batches
	Busy    uint64 // time that the worker worked for it
	Waiting uint64 // part of Busy spent in collectives
	Backlog uint64 // messages that wait at the worker
	Bytes   uint64 // of its values, where a quota counts them
}

// Event is something that a worker did.
type Event struct {
	Kind    EventKind
	Session uint64
	Begin   uint64 // nanoseconds since 1970
	Took    uint64 // nanoseconds
	What    uint64 // see EventKind
	Bytes   uint64 // see EventKind
}

// EventKind is the kind of an event.
type EventKind uint8

// Kinds of event.
const (
	// EventMessage is a message that was handled: Message returns its name, Bytes is its
	// length.
	EventMessage = EventKind(wire.EventMessage)
	// EventProgram is a program that was run. The field What has 8 bytes of its hash,
	// Bytes its number of instructions.
	EventProgram = EventKind(wire.EventProgram)
	// EventCollective is a collective for which the worker waited. The field What has its
	// kind in package collective/plan, Bytes the bytes that the worker sent.
	EventCollective = EventKind(wire.EventCollective)
	// EventOverlapped is a collective from its start until the worker waited for it: the
	// worker did other things meanwhile.
	EventOverlapped = EventKind(wire.EventOverlapped)
)

// Message returns the name of the message that an EventMessage is about.
func (e *Event) Message() string { return wire.KindName(uint32(e.What)) }

func countersOf(counters []wire.Counter) Counters {
	out := make(Counters, len(counters))
	for i, c := range counters {
		out[i] = Counter(c)
	}
	return out
}

func reportOf(m *wire.Watched) *WorkerReport {
	r := &WorkerReport{Worker: m.Worker, Now: m.Now, Counters: countersOf(m.Counters), First: m.First, More: m.More,
		Sessions: make([]WorkerSession, len(m.Sessions)), Events: make([]Event, len(m.Events))}
	for i, s := range m.Sessions {
		r.Sessions[i] = WorkerSession(s)
	}
	for i, e := range m.Events {
		r.Events[i] = Event{EventKind(e.Kind), e.Session, e.Begin, e.Took, e.What, e.Bytes}
	}
	return r
}
