package wire

import (
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/tensor"
)

// Watched answers a Watch.
//
//	session uint64, ask uint64, worker text, now uvarint,
//	counters uvarint, sessions uvarint, events uvarint, first uvarint, more uint8,
//	then of each counter: name text, value uvarint
//	then of each session: id uvarint, name text, workers, runs, busy, waiting, backlog and
//	bytes as uvarints
//	then of each event: kind uint8, session uvarint, begin uvarint (zigzag, as the
//	difference to the event before), took, what, bytes and shape as uvarints
type Watched struct {
	Session  uint64 // 0
	Ask      uint64 // of the Watch
	Worker   string
	Now      uint64 // the worker's clock, as are the events'
	Counters Counters
	Sessions []WatchedSession
	First    uint64 // number of the first event; the worker no longer has those before
	More     bool   // there are more events already
	Events   []Event
}

// WatchedSession is a worker's record of one of its sessions. Times are nanoseconds
// during which the worker was watched.
type WatchedSession struct {
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
	Shape   uint64 // of an EventStep: PackShape of its result; else 0
}

// Message returns the name of the message that an EventMessage, EventAside or EventSent
// is about.
func (e *Event) Message() string { return KindName(uint32(e.What)) }

// EventKind is the kind of an event.
type EventKind uint8

// Kinds of event. A number is never used twice.
const (
	// EventMessage is a message that was handled. The lower half of the field What has
	// its kind, the upper half its number among the messages of this kind that the
	// session's client sent, from 1 on; 0 for a message that has none (see Numbered).
	// Bytes is its length.
	EventMessage EventKind = 1
	// EventProgram is a program that was run. The field What has 8 bytes of its hash,
	// Bytes its number of instructions.
	EventProgram EventKind = 2
	// EventCollective is a collective for which the worker waited. The lowest byte of the
	// field What has its kind in package collective/protocol, the next one its Way; Bytes
	// has the bytes that the worker sent.
	EventCollective EventKind = 3
	// EventOverlapped is a collective from its start until the worker waited for it: the
	// worker did other things meanwhile.
	EventOverlapped EventKind = 4
	// EventStep is a step of a program: operations that the worker did at once. PackOps
	// says how the field What holds them; Bytes is how much the step read and wrote.
	EventStep EventKind = 5
	// EventCompile is a program that came and was made ready to run, or was rewritten for
	// several workers. The field What has 8 bytes of the hash of the client's program,
	// Bytes the number of its instructions.
	EventCompile EventKind = 6
	// EventAside is a message that was handled while a program ran, with the fields of
	// EventMessage.
	EventAside EventKind = 7

	// The kinds below are events of a client. They travel in no message.

	// EventSent is a message that the client sent, with the fields of EventMessage.
	EventSent EventKind = 32
	// EventSubmit is a batch from its begin until Submit returned. The field What has the
	// number of its Run.
	EventSubmit EventKind = 33
	// EventWait is a wait for the workers' answer to a Run. The field What has its
	// number.
	EventWait EventKind = 34
	// EventUpload is uploads that a Run announced, EventRead values that came with its
	// answer, EventFree values that it freed. The field What has their number, Bytes
	// their bytes, 0 for those freed.
	EventUpload EventKind = 35
	EventRead   EventKind = 36
	EventFree   EventKind = 37
)

// numbered are the kinds of a client's messages that are counted at both ends, each by
// itself: not every worker receives every kind.
var numbered = [...]uint32{KindOpenSession, KindSegment, KindBody, KindRun, KindSave}

// Numbers counts messages by kind.
type Numbers [len(numbered)]uint32

// Next counts a message and returns its number, 0 if messages of its kind are not
// counted.
func (n *Numbers) Next(kind uint32) uint32 {
	for i, k := range numbered {
		if k == kind {
			n[i]++
			return n[i]
		}
	}
	return 0
}

// Numbered returns the field What of EventMessage, EventAside and EventSent.
func Numbered(kind, number uint32) uint64 { return uint64(number)<<32 | uint64(kind) }

// Way is how the ranks of a collective reach each other.
type Way uint8

// Ways of collectives. A number is never used twice.
const (
	WayShared Way = 1 // shared memory
	WayTCP    Way = 2 // TCP
	WayBoth   Way = 3 // shared memory inside of hosts, and TCP across
	WayNear   Way = 4 // memory of devices, which the others read where it is
)

// String returns the way in words; empty for one that is not known.
func (w Way) String() string {
	if int(w) >= len(ways) {
		return ""
	}
	return ways[w]
}

var ways = [...]string{WayShared: "shared memory", WayTCP: "TCP", WayBoth: "shared memory inside of hosts, TCP across", WayNear: "memory of GPUs"}

// PackCollective returns the field What of EventCollective.
func PackCollective(kind uint8, way Way) uint64 { return uint64(way)<<8 | uint64(kind) }

// Collective returns the kind and the way of an EventCollective or EventOverlapped.
func (e *Event) Collective() (kind uint8, way Way) { return uint8(e.What), Way(e.What >> 8) }

// packed is the number of operations that an event names.
const packed = 8

// PackOps returns the first operations of a step in the field What of EventStep: a byte
// each, the first in the lowest, its number and 1.
func PackOps(ops []tensor.Op) (what uint64) {
	for i, op := range ops[:min(len(ops), packed)] {
		what |= (uint64(op) + 1) & 0xff << (8 * i)
	}
	return what
}

// Ops appends the operations of an EventStep.
func (e *Event) Ops(dst []tensor.Op) []tensor.Op {
	for what := e.What; what != 0; what >>= 8 {
		if b := what & 0xff; b != 0 {
			dst = append(dst, tensor.Op(b-1))
		}
	}
	return dst
}

// Number returns the number of the message that an EventMessage, EventAside or EventSent
// is about.
func (e *Event) Number() uint32 { return uint32(e.What >> 32) }

// Limits of a Watched.
const (
	MaxEvents  = 2048 // events
	MaxWatched = 256  // sessions
)

func (m *Watched) walk(w *encoding.Walk) {
	w.U64("Session", &m.Session)
	w.U64("Ask", &m.Ask)
	w.Text("Worker", &m.Worker, MaxName)
	w.Uvarint("Now", &m.Now)
	encoding.List(w, "Counters", (*[]Counter)(&m.Counters), MaxCounters, 2)
	encoding.List(w, "Sessions", &m.Sessions, MaxWatched, 8)
	encoding.List(w, "Events", &m.Events, MaxEvents, 7)
	w.Uvarint("First", &m.First)
	w.Bool("More", &m.More)
	m.Counters.walk(w)
	for i := range m.Sessions {
		s := &m.Sessions[i]
		w.Uvarint("Sessions.ID", &s.ID)
		w.Text("Sessions.Name", &s.Name, MaxName)
		w.Number("Sessions.Workers", &s.Workers, MaxWorkers)
		w.Uvarint("Sessions.Runs", &s.Runs)
		w.Uvarint("Sessions.Busy", &s.Busy)
		w.Uvarint("Sessions.Waiting", &s.Waiting)
		w.Uvarint("Sessions.Backlog", &s.Backlog)
		w.Uvarint("Sessions.Bytes", &s.Bytes)
	}
	last := uint64(0)
	for i := range m.Events {
		e := &m.Events[i]
		w.U8("Events.Kind", (*uint8)(&e.Kind))
		w.Uvarint("Events.Session", &e.Session)
		w.Delta("Events.Begin", &e.Begin, last)
		w.Uvarint("Events.Took", &e.Took)
		w.Uvarint("Events.What", &e.What)
		w.Uvarint("Events.Bytes", &e.Bytes)
		w.Uvarint("Events.Shape", &e.Shape)
		last = e.Begin
	}
}
