package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/turn"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Dispatcher forwards between clients and workers. Stats and ListenOptions may be called by
// any goroutine; everything else belongs to the one in Serve.
type Dispatcher struct {
	o        Options
	log      *slog.Logger
	warnings *ipc.Warnings // of peers that are refused or break the protocol

	listeners atomic.Pointer[[]ipc.Listener]
	peers     []*peer          // in the order in which they get their turn
	workers   map[string]*peer // by name
	sessions  map[uint64]*session
	waiting   []*session        // without a worker, oldest first
	widowed   []widowed         // given up by a worker because another is gone, oldest first
	line      *turn.Line[*peer] // gives turns to sessions of several workers
	last      uint64            // number of the newest session
	gone      bool              // some peer is
	first     int               // whose turn is first
	watchers  map[uint64]*peer  // who look, by the number of their questions
	asks      uint64            // the last of these
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
	Sessions, Waiting int    // open; of these without a worker yet
	Opened, Failed    uint64 // sessions since the start; of these ended by anything but their client
	Messages, Bytes   uint64 // forwarded
	TensorBytes       uint64 // of these, bytes of tensors: 0 where client and worker share memory
	Descriptors       uint64 // forwarded
	Blocked           uint64 // times a worker's queue had no room
	Queued            uint64 // messages kept for a client whose queue had no room
	Refused           uint64 // peers that were not let in, by a listener that counts them or here
	Paused            uint64 // times a worker had enough to do for a session
	Turns             uint64 // given to sessions of several workers that have conns of their own
}

// turnedAway is how many peers the listeners did not let in.
func (d *Dispatcher) turnedAway() (n uint64) {
	all := d.listeners.Load()
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

// New makes a dispatcher; Serve runs it.
func New(o *Options) (*Dispatcher, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{o: c, log: c.Logger, warnings: ipc.NewWarnings(c.Logger), workers: map[string]*peer{},
		sessions: map[uint64]*session{}, watchers: map[uint64]*peer{}}
	d.line = turn.NewLine(d.sayTurn)
	return d, nil
}

// ListenOptions are what a listener for Serve must be opened with.
func (d *Dispatcher) ListenOptions() *ipc.Options {
	return &ipc.Options{
		Hello:  ipc.Peer{Role: ipc.RoleServer, Name: d.o.Name},
		Waiter: d.o.Waiter, Logger: d.log, RingBytes: d.o.RingBytes, AllowGID: d.o.AllowGID,
		Secret: d.o.Secret,
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
		Refused: s.refused.Load() + d.turnedAway(),
	}
}

// Serve accepts peers and forwards between them until ctx is done. Then it tells everybody why
// (the context's cause), closes the conns and the listeners, and returns nil. It is
// called once.
func (d *Dispatcher) Serve(ctx context.Context, listeners ...ipc.Listener) error {
	d.listeners.Store(&listeners)
	for {
		if err := d.o.Waiter.Wait(ctx, d.turn); err != nil {
			return d.shutDown(context.Cause(ctx))
		}
		if ctx.Err() != nil { // while there is always something to do
			return d.shutDown(context.Cause(ctx))
		}
	}
}

// turn gives every peer its turn, and reports whether there was anything to do.
func (d *Dispatcher) turn() bool {
	worked := d.accept()
	// Another begins each time: whoever finds a queue full is not always the same.
	d.first++
	for i := range d.peers {
		if p := d.peers[(d.first+i)%len(d.peers)]; !p.gone && d.serve(p) {
			worked = true
		}
	}
	if len(d.waiting) > 0 && d.expire(time.Now()) {
		worked = true
	}
	if len(d.widowed) > 0 && d.mourn(time.Now()) {
		worked = true
	}
	if d.gone {
		d.gone = false
		d.peers = slices.DeleteFunc(d.peers, func(p *peer) bool { return p.gone })
	}
	return worked
}

// serve takes messages of one peer, as many as it has credit for.
func (d *Dispatcher) serve(p *peer) (worked bool) {
	if len(p.queue) > 0 {
		worked = p.flush()
	}
	if p.queued > d.o.MaxQueued && p.role != ipc.RoleWorker { // it asks on and reads nothing: what it says waits until it does
		if err := p.conn.Err(); err != nil {
			d.lost(p, err)
			return true
		}
		return worked
	}
	if p.credit = min(p.credit+quantum, quantum); p.credit <= 0 {
		return true // it had more than its share; that there is nothing to do would be wrong
	}
	for p.credit > 0 && !p.gone {
		if !p.held {
			m, ok, err := p.conn.TryRecv()
			if err != nil {
				d.lost(p, err)
				return true
			}
			if !ok {
				break
			}
			p.msg, p.held = m, true
		}
		n := len(p.msg.Body)
		if !d.handle(p, &p.msg) {
			// It stays where it is until the worker has room, or there is one. Only
			// here a death is not found by receiving.
			if err := p.conn.Err(); err != nil {
				d.lost(p, err)
				return true
			}
			break
		}
		p.release()
		p.credit -= n + messageCost
		worked = true
	}
	return worked
}

// handle deals with one message of p; false says that it cannot be forwarded now.
func (d *Dispatcher) handle(p *peer, m *ipc.Message) bool {
	switch m.Kind {
	case wire.KindStatus:
		d.status(p, m)
		return true
	case wire.KindWatch:
		d.watch(p, m)
		return true
	}
	switch p.role {
	case ipc.RoleClient:
		return d.fromClient(p, m)
	case ipc.RoleWorker:
		d.fromWorker(p, m)
	default:
		d.misbehaves(p, fmt.Sprintf("%s of a %s, which only asks for Status and Watch", wire.KindName(m.Kind), p.role))
	}
	return true
}

// accept takes new peers in.
func (d *Dispatcher) accept() (worked bool) {
	for _, l := range *d.listeners.Load() {
		for {
			c, ok := l.TryAccept()
			if !ok {
				break
			}
			worked = true
			d.join(&peer{conn: c, role: c.Peer().Role, who: c.Peer()})
		}
	}
	return worked
}

// join gives a new peer its place, or refuses it.
func (d *Dispatcher) join(p *peer) {
	switch p.role {
	case ipc.RoleClient:
		if n, oldest := d.idle(p.role); n >= d.o.MaxIdle {
			d.displace(oldest, n)
		}
		d.stats.clients.Add(1)
	case ipc.RoleControl:
		if n, _ := d.idle(p.role); n >= d.o.MaxIdle {
			d.refuse(p, wire.CodeQuota, fmt.Sprintf("%d are connected that ask for Status and Watch, at most %d can be: end some", n, d.o.MaxIdle))
			return
		}
	case ipc.RoleWorker:
		if !d.hire(p) {
			return
		}
	default:
		d.refuse(p, wire.CodeProtocol, fmt.Sprintf("role %s is neither client, worker nor control", p.role))
		return
	}
	d.log.Debug("peer connected", "peer", p)
	d.peers = append(d.peers, p)
}

// idle counts the peers of a role that have no open session, and gives the oldest of them.
func (d *Dispatcher) idle(role ipc.Role) (n int, oldest *peer) {
	for _, p := range d.peers {
		if p.gone || p.role != role || p.session != nil && !p.session.over {
			continue
		}
		if n++; oldest == nil {
			oldest = p
		}
	}
	return n, oldest
}

// displace ends a client that has no open session, the oldest of n, for another that may open one.
func (d *Dispatcher) displace(p *peer, n int) {
	text := fmt.Sprintf("%d clients are connected without an open session, at most %d can be, and this one is the oldest of them: "+
		"open a session, or close the connection", n, d.o.MaxIdle)
	d.stats.refused.Add(1)
	d.warnings.Warn("idle", "client without a session ended", "peer", p, "reason", text)
	p.tell(&wire.Fail{Code: wire.CodeQuota, Text: text})
	d.lost(p, errors.New(text))
}

// hire takes a worker in, unless its name is taken.
func (d *Dispatcher) hire(p *peer) bool {
	name := p.who.Name
	if name == "" {
		d.refuse(p, wire.CodeProtocol, "a worker needs a name")
		return false
	}
	if old := d.workers[name]; old != nil {
		// A worker that was restarted may be here before its predecessor's end was noticed.
		if err := old.conn.Err(); err != nil {
			d.lost(old, err)
		} else {
			d.refuse(p, wire.CodeNameTaken, fmt.Sprintf("worker name %q is taken by pid %d; this is pid %d",
				name, old.who.PID, p.who.PID))
			return false
		}
	}
	p.sessions = map[uint64]*session{}
	d.workers[name] = p
	return true
}

// register handles a worker's Device. Sessions can be placed on it from the first on.
func (d *Dispatcher) register(p *peer, m *ipc.Message) {
	var dev wire.Device
	if err := wire.ParseDevice(m.Body, &dev); err != nil {
		d.misbehaves(p, err.Error())
		return
	}
	first := p.device == nil
	if p.device = &dev; !first {
		return
	}
	d.stats.workers.Add(1)
	d.log.Info("worker joined", "worker", p.who.Name, "pid", p.who.PID, "device", dev.Info.Name)
	for _, s := range slices.Clone(d.waiting) {
		d.place(s)
	}
}

// refuse tells a peer that is not yet one why, and hangs up.
func (d *Dispatcher) refuse(p *peer, code wire.Code, text string) {
	d.stats.refused.Add(1)
	d.warnings.Warn(fmt.Sprint("refused: ", code), "peer refused", "peer", p, "reason", text)
	p.tell(&wire.Fail{Code: code, Text: text})
	_ = p.conn.Close()
}

// misbehaves ends a peer that broke the protocol.
func (d *Dispatcher) misbehaves(p *peer, what string) {
	d.warnings.Warn("protocol", "peer broke the protocol", "peer", p, "what", what)
	p.tell(&wire.Fail{Code: wire.CodeProtocol, Text: what})
	d.lost(p, fmt.Errorf("%w: %s", ipc.ErrCorrupt, what))
}

// lost ends a peer that is gone or must go.
func (d *Dispatcher) lost(p *peer, err error) {
	if p.gone {
		return
	}
	p.gone, d.gone = true, true
	switch p.role {
	case ipc.RoleClient:
		d.stats.clients.Add(-1)
		if p.session != nil {
			d.closeSession(p.session, wire.CodeOK)
		}
	case ipc.RoleWorker:
		if p.device != nil {
			d.stats.workers.Add(-1)
		}
		delete(d.workers, p.who.Name)
		level := slog.LevelInfo // an idle worker may come and go, and one that says why it stops; who supervises it says more
		for _, s := range p.sessions {
			if _, said := s.said[p]; !said {
				level = slog.LevelWarn
			}
		}
		d.log.Log(context.Background(), level, "worker gone", "worker", p.who.Name, "pid", p.who.PID, "sessions", len(p.sessions), "err", err)
		for _, s := range p.sessions {
			if text, said := s.said[p]; said {
				d.abandon(s, wire.CodeWorkerGone, text)
				continue
			}
			d.failSession(s, wire.CodeWorkerGone, fmt.Sprintf("worker %q (pid %d) is gone: %s", p.who.Name, p.who.PID, ending(err)))
		}
	}
	delete(d.watchers, p.asks)
	d.log.Debug("peer gone", "peer", p, "err", err)
	p.end()
}

// shutDown ends everything.
func (d *Dispatcher) shutDown(cause error) error {
	for _, l := range *d.listeners.Load() {
		_ = l.Close()
	}
	d.warnings.Close()
	text := fmt.Sprintf("dispatcher %q (pid %d) is stopping: %v", d.o.Name, os.Getpid(), cause)
	d.log.Info("stopping", "cause", cause, "clients", d.stats.clients.Load(), "workers", d.stats.workers.Load())
	for _, p := range d.peers {
		if p.gone {
			continue
		}
		p.tell(&wire.Fail{Code: wire.CodeShutdown, Text: text})
		p.gone = true
		p.end()
	}
	d.peers = nil
	clear(d.workers)
	clear(d.sessions)
	clear(d.watchers)
	d.waiting = nil
	for _, n := range []*atomic.Int64{&d.stats.clients, &d.stats.workers, &d.stats.sessions, &d.stats.waiting} {
		n.Store(0)
	}
	return nil
}
