package collective

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ringside-go/ringside/collective/internal/host"
	"github.com/ringside-go/ringside/shm"
)

// A goroutine that makes brief calls again and again is favored: the lane's gate opens for it, and it makes them as express calls, without
// a locked instruction and without looking at what only ever changes once the gate was closed. For everybody else, and for whatever is
// queued, the gate is closed first, which costs a fence on all cores: a microsecond or some. So that two goroutines which take turns do
// not open and close it all the time, it takes twice as many calls to be favored each time it was closed.
//
// Who holds the lane is still one:
//   - Everybody but the favored one finds the gate closed, or closes it, and finds nobody inside before it takes the lane. That whoever had
//     the gate open is seen inside, is what the fence is for, see host.Gate. Who looks at an opening that is not the last any more has the
//     word from before the last.
//   - The gate is opened only by the one it opens for, in a call for which it has taken the lane: that changed the word, so that who looked
//     at the gate before does not get the lane with the word from before.
//   - Who opens the gate looks afterwards whether something was queued or the group has failed; who queues, or has the group fail, closes
//     the gate afterwards. So nothing is overtaken, and no call is made in a group of which it was known that it failed.
type favored struct {
	mu sync.Mutex // held while the gate is closed

	// Of the opening that was closed last, under mu.
	opening uint64
	holder  uintptr

	// Of whoever holds the lane.
	last uintptr // the goroutine that has made the last brief call
	runs int     // that it has made in a row
}

// favorAfter is how many brief calls in a row favor a goroutine for the first time.
const favorAfter = 16

// inside says whether a favored goroutine runs a call.
func (l *lane) inside() bool {
	return atomic.LoadUint64(&l.gate.Inside[atomic.LoadUint64(&l.gate.Opened)]) != 0
}

// passes says whether the caller may take the lane as far as the gate is concerned: it is open for the caller, or closed with nobody inside.
func (l *lane) passes() bool {
	if h := l.gate.Holder.Load(); h != 0 && h != host.Goroutine() {
		l.close()
	}
	return !l.inside()
}

// favor is told by whoever holds the lane that a brief call was made, by way of the lane.
func (l *lane) favor() {
	f, me := &l.favored, host.Goroutine()
	if f.last != me {
		f.last, f.runs = me, 0
	}
	f.runs++
	if me == 0 || f.runs < favorAfter<<min(l.gate.Opened, 24) || l.gate.Holder.Load() != 0 || !canFence() {
		return
	}
	opening := l.gate.Opened + 1
	if opening == host.Openings { // by then the goroutines have made some hundred million calls in turns
		return
	}
	f.runs = 0
	atomic.StoreUint64(&l.gate.Opened, opening)
	l.gate.Holder.Store(me)
	if g := l.group; l.gate.Before.Load()&laneQueue != 0 || g.failure.Load() != nil || g.left.Load() != nil {
		l.close()
	}
}

// favors says whether the gate is open for the caller.
func (l *lane) favors() bool {
	h := l.gate.Holder.Load()
	return h > host.Closing && h == host.Goroutine()
}

// close closes the gate. The goroutine it was open for may still be inside: it nudges when it is not any more.
func (l *lane) close() {
	if l.gate.Holder.Load() == 0 {
		return
	}
	f := &l.favored
	f.mu.Lock()
	defer f.mu.Unlock()
	h := l.gate.Holder.Load()
	if h == 0 {
		return
	}
	f.opening, f.holder = atomic.LoadUint64(&l.gate.Opened), h
	l.gate.Holder.Store(host.Closing) // others wait until it is 0
	fence()
	l.gate.Holder.Store(0)
}

// canFence says whether the system has fences on all cores.
var canFence = sync.OnceValue(func() bool { return shm.HeedBarriers() == nil && shm.Barrier() == nil })

// fence has all cores that run this process pass a fence. If the system has become unable to, the runtime stops all goroutines.
func fence() {
	if shm.Barrier() != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
	}
}

// restOf is what is to be done for an express call that was not simply Made; it says whether it was made at all.
//
//go:noinline
func (g *Group) restOf(ctx context.Context, b *bound, word uint64, got host.Outcome) (made bool, err error) {
	switch got {
	case host.NotMade:
		return false, nil
	case host.Turned, host.Overdue:
		g.lane.nudge()
		return got == host.Overdue, nil
	}
	if err = b.express.End(ctx, word, got, b.dst, b.src); err != nil {
		err = g.endBound(ctx, b.prepared, g.lane.calls(), err)
	} else {
		g.count(len(b.dst))
	}
	if b.express.Leave() {
		g.lane.nudge()
	}
	return true, err
}
