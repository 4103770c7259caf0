package main

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// pulseEvery is how often a waiting call asks whether it is interrupted. Waits look
	// at their context at least every 100 ms.
	pulseEvery = 20 * time.Millisecond

	// pulseSleep is the shortest time between two looks that was a sleep. A signal may
	// have ended it, or come just before it, so the call asks before it sleeps again.
	pulseSleep = time.Millisecond
)

// pulse is the context of the calls of a group or session on their callers' threads. A
// call that waits looks at Err often, on its own thread. There Err asks the caller's
// language, after a sleep or once in pulseEvery, whether a signal ends the call. Python's
// handlers, for example, run on that thread alone.
type pulse struct {
	context.Context
	end         context.CancelCauseFunc
	interrupted func() bool
	made        time.Time     // the times below count from it, as clocks may go back
	looked      atomic.Int64  // when Err was called last, in nanoseconds
	next        atomic.Int64  // when to ask again; 0: the call has not waited yet
	never       chan struct{} // not nil: only waits end, not the programs of workers
}

// newPulse returns a context that asks interrupted.
func newPulse(interrupted func() bool) *pulse {
	ctx, end := context.WithCancelCause(context.Background())
	return &pulse{Context: ctx, end: end, interrupted: interrupted, made: time.Now()}
}

// Done returns a channel that stays open where programs are spared. A client has the
// workers stop their programs when its context is done, and results that were recorded
// together would be lost, such as a model's parameters. Waits look at Err.
func (p *pulse) Done() <-chan struct{} {
	if p.never != nil {
		return p.never
	}
	return p.Context.Done()
}

// renew begins anew after an interruption, before a call. No call is under way.
func (p *pulse) renew() {
	if p.Context.Err() != nil {
		p.Context, p.end = context.WithCancelCause(context.Background())
	}
	p.next.Store(0)
}

// Err returns nil until a signal has ended the call.
func (p *pulse) Err() error {
	now := int64(time.Since(p.made))
	slept := now-p.looked.Swap(now) >= int64(pulseSleep)
	if next := p.next.Load(); (slept || now >= next) && p.next.CompareAndSwap(next, now+int64(pulseEvery)) && next != 0 && p.interrupted() {
		p.end(errInterrupted)
	}
	return p.Context.Err()
}
