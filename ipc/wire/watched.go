package wire

// Watched answers a Watch.
//
//	session uint64, ask uint64, worker text, now uvarint,
//	counters uvarint, sessions uvarint, events uvarint, first uvarint, more uint8,
//	then of each counter: name text, value uvarint
//	then of each session: id uvarint, name text, workers, runs, busy, waiting, backlog and bytes as uvarints
//	then of each event: kind uint8, session uvarint, begin uvarint (zigzag, as the difference to the event before), took, what and
//	bytes as uvarints
type Watched struct {
	Session  uint64 // none: 0
	Ask      uint64 // of the Watch
	Worker   string
	Now      uint64 // the worker's clock, as are the events'
	Counters []Counter
	Sessions []WatchedSession
	First    uint64 // number of the first event; what was asked for before it is lost
	More     bool   // there are more events already
	Events   []Event
}

// WatchedSession is what a worker knows of one of its sessions. Times are nanoseconds for which somebody watched.
type WatchedSession struct {
	ID      uint64 // the dispatcher's number
	Name    string // that the client gave
	Workers uint32 // how many run it together
	Runs    uint64 // batches
	Busy    uint64 // time that the worker worked for it
	Waiting uint64 // of this, in collectives
	Backlog uint64 // messages that wait here for their turn
	Bytes   uint64 // of its values, as far as a quota has them counted
}

// Event is something that a worker did.
type Event struct {
	Kind    EventKind
	Session uint64
	Begin   uint64 // nanoseconds since 1970
	Took    uint64 // nanoseconds
	What    uint64 // by kind: see there
	Bytes   uint64 // by kind
}

// EventKind is what an event is about.
type EventKind uint8

// Kinds of event. A number is never used twice.
const (
	EventMessage    EventKind = 1 // a message was handled: What is its kind, Bytes its length
	EventProgram    EventKind = 2 // a program was run: What are 8 bytes of its hash, Bytes how many instructions it has
	EventCollective EventKind = 3 // a collective, for which the worker waited: What is its kind in package collective/plan, Bytes what it sent
	EventOverlapped EventKind = 4 // the same, from its start to when it was waited for: the worker did other things meanwhile
)

const (
	// MaxEvents is how many events a message has.
	MaxEvents = 2048
	// MaxWatched is how many sessions a message has.
	MaxWatched = 256
)

// AppendWatched appends m to dst.
func AppendWatched(dst []byte, m *Watched) []byte {
	dst = appendU64(dst, m.Session)
	dst = appendU64(dst, m.Ask)
	dst = appendText(dst, m.Worker)
	dst = appendUint(dst, m.Now)
	for _, n := range []int{len(m.Counters), len(m.Sessions), len(m.Events)} {
		dst = appendCount(dst, n)
	}
	dst = appendBool(appendUint(dst, m.First), m.More)
	for i := range m.Counters {
		dst = appendUint(appendText(dst, m.Counters[i].Name), m.Counters[i].Value)
	}
	for i := range m.Sessions {
		s := &m.Sessions[i]
		dst = appendText(appendUint(dst, s.ID), s.Name)
		for _, n := range s.numbers() {
			dst = appendUint(dst, n)
		}
	}
	last := uint64(0)
	for i := range m.Events {
		e := &m.Events[i]
		dst = append(dst, byte(e.Kind))
		dst = appendUint(dst, e.Session)
		dst = appendUint(dst, zigzag(int64(e.Begin-last)))
		last = e.Begin
		dst = appendUint(appendUint(appendUint(dst, e.Took), e.What), e.Bytes)
	}
	return dst
}

func (s *WatchedSession) numbers() [6]uint64 {
	return [6]uint64{uint64(s.Workers), s.Runs, s.Busy, s.Waiting, s.Backlog, s.Bytes}
}

// Size is the number of bytes AppendWatched writes.
func (m *Watched) Size() int {
	n := 16 + sizeText(m.Worker) + sizeUint(m.Now) + sizeCount(len(m.Counters)) + sizeCount(len(m.Sessions)) + sizeCount(len(m.Events)) +
		sizeUint(m.First) + 1
	for i := range m.Counters {
		n += sizeText(m.Counters[i].Name) + sizeUint(m.Counters[i].Value)
	}
	for i := range m.Sessions {
		s := &m.Sessions[i]
		n += sizeUint(s.ID) + sizeText(s.Name)
		for _, v := range s.numbers() {
			n += sizeUint(v)
		}
	}
	last := uint64(0)
	for i := range m.Events {
		e := &m.Events[i]
		n += 1 + sizeUint(e.Session) + sizeUint(zigzag(int64(e.Begin-last))) + sizeUint(e.Took) + sizeUint(e.What) + sizeUint(e.Bytes)
		last = e.Begin
	}
	return n
}

// ParseWatched reads a message that AppendWatched wrote.
func ParseWatched(src []byte, m *Watched) error {
	p := parser{msg: "Watched", src: src}
	m.Session = p.u64("Session")
	m.Ask = p.u64("Ask")
	m.Worker = p.text("Worker", MaxName)
	m.Now = p.uvarint("Now")
	counters := p.count("Counters", MaxCounters, 2)
	sessions := p.count("Sessions", MaxWatched, 8)
	events := p.count("Events", MaxEvents, 6)
	m.First = p.uvarint("First")
	m.More = p.bool("More")
	m.Counters = resize(m.Counters, counters)
	for i := range m.Counters {
		m.Counters[i] = Counter{p.text("Counters.Name", MaxName), p.uvarint("Counters.Value")}
	}
	m.Sessions = resize(m.Sessions, sessions)
	for i := range m.Sessions {
		m.Sessions[i] = WatchedSession{ID: p.uvarint("Sessions.ID"), Name: p.text("Sessions.Name", MaxName),
			Workers: p.number("Sessions.Workers", MaxWorkers), Runs: p.uvarint("Sessions.Runs"), Busy: p.uvarint("Sessions.Busy"),
			Waiting: p.uvarint("Sessions.Waiting"), Backlog: p.uvarint("Sessions.Backlog"), Bytes: p.uvarint("Sessions.Bytes")}
	}
	m.Events = resize(m.Events, events)
	last := uint64(0)
	for i := range m.Events {
		e := Event{Kind: EventKind(p.u8("Events.Kind")), Session: p.uvarint("Events.Session"),
			Begin: last + uint64(p.varint("Events.Begin"))}
		last = e.Begin
		e.Took, e.What, e.Bytes = p.uvarint("Events.Took"), p.uvarint("Events.What"), p.uvarint("Events.Bytes")
		m.Events[i] = e
	}
	return p.end()
}

// Get returns the counter of that name, 0 when there is none.
func (m *Watched) Get(name string) uint64 { return value(m.Counters, name) }
