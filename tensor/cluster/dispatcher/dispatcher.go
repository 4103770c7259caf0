package dispatcher

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/turn"
)

// Dispatcher forwards messages between clients and workers. Any goroutine may call Stats
// and ListenOptions; everything else belongs to the goroutine in Serve.
type Dispatcher struct {
	o        Options
	log      *slog.Logger
	flight   *flight       // nil without Options.Flight
	warnings *ipc.Warnings // about peers that are refused or break the protocol

	listeners atomic.Pointer[[]ipc.Listener]
	peers     roster
	workers   map[string]*peer // by name
	sessions  map[*session]struct{}
	waiting   []*session        // without a worker, oldest first
	silence   silence           // workers that do not answer
	resumed   resumed           // sessions that another dispatcher opened
	givenUp   []givenUp         // sessions in their grace period, oldest first
	line      *turn.Line[*peer] // gives turns to sessions of several workers
	last      uint64            // number of the newest session
	acceptAt  time.Time         // when further peers are accepted, once it was crowded
	watchers  map[uint64]*peer  // controls that sent a Watch, by its number
	asks      uint64            // number of the last of these
	trainings trainings
	trimmer   trimmer
	stats     counters
}

// counters are written by the goroutine of Serve.
type counters struct {
	clients, workers, sessions, waiting       atomic.Int64
	opened, failed                            atomic.Uint64
	messages, bytes, tensorBytes, descriptors atomic.Uint64
	blocked, queued, paused, refused, turns   atomic.Uint64
}

// Stats are a dispatcher's counters.
type Stats struct {
	Clients, Workers  int
	Sessions, Waiting int    // open sessions; those of them without a worker
	Opened, Failed    uint64 // sessions since the start; those not ended by their client
	Messages, Bytes   uint64 // forwarded
	TensorBytes       uint64 // bytes of tensors among Bytes: 0 where memory is shared
	Descriptors       uint64 // forwarded
	Blocked           uint64 // times that a worker's queue had no room
	Queued            uint64 // messages kept for a client whose queue had no room
	Refused           uint64 // peers refused by a listener that counts them, or here
	Paused            uint64 // times that a worker had enough to do for a session
	Turns             uint64 // turns given to sessions, see package turn
}

// turnedAway returns how many peers the listeners refused.
func turnedAway(all *[]ipc.Listener) (n uint64) {
	if all == nil {
		return 0
	}
	for _, l := range *all {
		if l, ok := l.(interface{ Refused() uint64 }); ok {
			n += l.Refused()
		}
	}
	return n
}

// New returns a dispatcher; Serve runs it.
func New(o *Options) (*Dispatcher, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{o: c, log: c.Logger, workers: map[string]*peer{},
		sessions: map[*session]struct{}{}, watchers: map[uint64]*peer{}}
	if c.Flight != "" {
		d.flight = &flight{Handler: c.Logger.Handler(), folder: c.Flight, events: &flightRing{}, writes: newFlightWriter((*collective.FlightFile).Write)}
		d.log = slog.New(d.flight)
	}
	d.warnings = ipc.NewWarnings(d.log)
	d.silence.d, d.resumed = d, newResumed(d)
	d.line = turn.NewLine(d.sayTurn)
	return d, nil
}

// ListenOptions returns the options that a listener for Serve must be opened with.
func (d *Dispatcher) ListenOptions() *ipc.Options {
	return &ipc.Options{
		Hello:  ipc.Peer{Role: ipc.RoleServer, Name: d.o.Name},
		Waiter: d.o.Waiter, Logger: d.log, RingBytes: d.o.RingBytes, AllowGID: d.o.AllowGID,
		Secret: d.o.Secret, TLS: d.o.TLS,
	}
}

// Stats returns the counters so far.
func (d *Dispatcher) Stats() Stats {
	s := &d.stats
	return Stats{
		Clients: int(s.clients.Load()), Workers: int(s.workers.Load()),
		Sessions: int(s.sessions.Load()), Waiting: int(s.waiting.Load()),
		Opened: s.opened.Load(), Failed: s.failed.Load(),
		Messages: s.messages.Load(), Bytes: s.bytes.Load(), TensorBytes: s.tensorBytes.Load(),
		Descriptors: s.descriptors.Load(), Blocked: s.blocked.Load(), Queued: s.queued.Load(), Paused: s.paused.Load(), Turns: s.turns.Load(),
		Refused: s.refused.Load() + turnedAway(d.listeners.Load()),
	}
}
