package crosshost

import (
	"sync/atomic"
	"time"

	"github.com/ringside-go/ringside/ipc"
)

// clock tells a call that it has taken too long, for the price of two atomic operations
// in a call that has not. A timer ticks only while a call is under way and for one tick
// more, and a call counts ticks instead of reading the time.
type clock struct {
	timeout time.Duration
	period  time.Duration
	limit   uint32 // ticks that a call may take
	waiter  ipc.Waiter
	timer   *time.Timer
	busy    atomic.Bool // a call is under way
	armed   atomic.Bool // the timer will tick
	ended   atomic.Bool
	ticks   atomic.Uint32
}

// maxPeriod is how long a rank waits for others in silence before it asks them.
const maxPeriod = 250 * time.Millisecond

// start sets the timeout and the waiter to wake.
func (k *clock) start(timeout time.Duration, w ipc.Waiter) {
	k.timeout = timeout
	k.period = min(max(timeout/8, time.Millisecond), maxPeriod)
	k.limit = uint32(timeout/k.period) + 1 // the first tick may come at once
	k.waiter = w
	k.timer = time.AfterFunc(time.Hour, k.tick)
	k.timer.Stop()
}

// begin starts a call. It returns the ticks so far.
func (k *clock) begin() uint32 {
	k.busy.Store(true)
	if !k.armed.Load() {
		k.arm()
	}
	return k.ticks.Load()
}

// end ends a call.
func (k *clock) end() { k.busy.Store(false) }

// arm starts the timer, if it does not run.
func (k *clock) arm() {
	if k.armed.CompareAndSwap(false, true) && !k.ended.Load() {
		k.timer.Reset(k.period)
	}
}

// tick counts, and wakes the call under way.
func (k *clock) tick() {
	k.ticks.Add(1)
	if k.ended.Load() {
		return
	}
	if k.busy.Load() {
		k.waiter.Wake()
		k.timer.Reset(k.period)
		return
	}
	k.armed.Store(false)
	if k.busy.Load() { // a call began before it could see armed false
		k.arm()
	}
}

// close ends the clock.
func (k *clock) close() {
	k.ended.Store(true)
	k.timer.Stop()
}
