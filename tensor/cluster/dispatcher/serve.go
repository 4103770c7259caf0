package dispatcher

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor/cluster/internal/wire"
)

// Serve accepts peers and forwards between them until ctx is done. Then it tells all
// peers the context's cause, closes the connections and the listeners, and returns nil.
// It is called once.
func (d *Dispatcher) Serve(ctx context.Context, listeners ...ipc.Listener) error {
	d.listeners.Store(&listeners)
	defer d.o.Waiter.OnPark(func() { d.peers.parking = true })()
	for {
		if err := d.o.Waiter.Wait(ctx, d.round); err != nil {
			return d.shutDown(context.Cause(ctx))
		}
		if ctx.Err() != nil { // Wait does not look at ctx while there is work
			return d.shutDown(context.Cause(ctx))
		}
	}
}

// round serves peers, each once at most, and reports whether there was anything to do.
func (d *Dispatcher) round() bool {
	worked := d.accept()
	for _, p := range d.peers.round() {
		if p.gone {
			continue
		}
		if d.serve(p) {
			worked = true
			d.peers.warmUp(p)
		} else if p.held || len(p.queue) > 0 { // it waits for room
			d.peers.warmUp(p)
		}
	}
	if len(d.waiting) > 0 && d.expire(time.Now()) {
		worked = true
	}
	if len(d.silence.openings) > 0 && d.silence.passOver(time.Now()) {
		worked = true
	}
	if len(d.givenUp) > 0 && d.failGivenUp(time.Now()) {
		worked = true
	}
	d.peers.sweep()
	if worked {
		d.trimmer.worked(&d.o)
	}
	return d.trimmer.round(d) || worked
}

// serve handles messages of one peer, as many as it has credit for.
func (d *Dispatcher) serve(p *peer) (worked bool) {
	if len(p.queue) > 0 {
		worked = p.flush()
	}
	// its messages wait until it reads the answers
	if p.queued > d.o.MaxQueued && p.role != ipc.RoleWorker {
		if err := p.conn.Err(); err != nil {
			d.lost(p, err)
			return true
		}
		return worked
	}
	if p.credit = min(p.credit+quantum, quantum); p.credit <= 0 {
		return true // it has used more than its share; there may be more to do
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
			// The message stays in the queue until the worker has room, or there is a
			// worker. Only here receiving does not find the end of a peer.
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

// handle handles one message of p. It returns false if it cannot be forwarded now.
func (d *Dispatcher) handle(p *peer, m *ipc.Message) bool {
	switch m.Kind {
	case wire.KindStatus:
		d.status(p, m)
		return true
	case wire.KindWatch:
		d.watch(p, m)
		return true
	case wire.KindShow:
		show(d, p, m)
		return true
	case wire.KindTraining:
		if p.role == ipc.RoleControl {
			if t := new(wire.Training); d.parse(p, m, t) {
				d.trainings.told(p, t)
			}
			return true
		}
	}
	switch p.role {
	case ipc.RoleClient:
		return d.fromClient(p, m)
	case ipc.RoleWorker:
		if p.silent {
			d.silence.heard(p)
		}
		d.fromWorker(p, m)
	default:
		d.misbehaves(p, fmt.Sprintf("%s of a %s, which only tells a Training, and asks by Status, Watch and Show", wire.KindName(m.Kind), p.role))
	}
	return true
}

// accept accepts new peers.
func (d *Dispatcher) accept() (worked bool) {
	for _, l := range *d.listeners.Load() {
		for !crowded(d, time.Now()) {
			c, ok := l.TryAccept()
			if !ok {
				break
			}
			worked = true
			d.join(&peer{conn: c, role: c.Peer().Role, who: c.Peer(), came: time.Now()})
		}
	}
	return worked
}

// shutDown ends all connections and sessions.
func (d *Dispatcher) shutDown(cause error) error {
	for _, l := range *d.listeners.Load() {
		_ = l.Close()
	}
	d.silence.rest()
	d.trimmer.end()
	d.warnings.Close()
	text := fmt.Sprintf("dispatcher %q (pid %d) is stopping: %v", d.o.Name, os.Getpid(), cause)
	d.log.Info("stopping", "cause", cause, "clients", d.stats.clients.Load(), "workers", d.stats.workers.Load())
	for _, p := range d.peers.all {
		if p.gone {
			continue
		}
		p.tell(&wire.Fail{Code: wire.CodeShutdown, Text: text})
		p.gone = true
		p.end()
	}
	d.peers = roster{}
	clear(d.workers)
	clear(d.sessions)
	d.resumed = newResumed(d)
	clear(d.watchers)
	d.waiting = nil
	for _, n := range []*atomic.Int64{&d.stats.clients, &d.stats.workers, &d.stats.sessions, &d.stats.waiting} {
		n.Store(0)
	}
	d.flight.end()
	return nil
}
