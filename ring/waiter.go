package ring

import (
	"runtime"
	"sync/atomic"
	"time"
)

const (
	// spinTime is how long a chunk of spinning takes, and so how long a stop of
	// the world may have to wait for it.
	spinTime = time.Microsecond

	// minSpin is the least number of pauses in a chunk.
	minSpin = 8

	// maxVain is how many half chunks in a row may end without success on a shared core.
	// Then a wait spins for half a chunk only now and then, see tryEvery.
	maxVain = 4

	// tryEvery says how often: one wait in so many. It is a prime, since waits come in
	// patterns.
	tryEvery = 31

	// slowYield is the time that a sched_yield exceeds only if another thread ran
	// meanwhile.
	slowYield = 800 * time.Nanosecond

	// sharedWaits is for how many yields a core counts as shared after a slow one.
	sharedWaits = 16

	// minPatience is how long to wait awake at first: about what waking a sleeper
	// costs.
	minPatience = 50 * time.Microsecond

	// maxPatience is how long to wait awake where sleeps turn out to be short, and
	// what "short" means.
	maxPatience = 200 * time.Microsecond

	// manyShort is how many short sleeps in a row it takes: a single one is usual
	// where there are a few messages now and then.
	manyShort = 3

	// minTogether is the number of waits in a row that ended because another thread had
	// run on this core, after which a wait sleeps instead of yielding. The kernel puts a
	// woken thread on an idle core, if there is one. Without the sleep, two threads that
	// talk to each other may share a core for many milliseconds beside an idle one. If
	// the sleep did not help, the next one comes after twice as many waits, up to
	// maxTogether.
	minTogether = 32
	maxTogether = 1 << 14

	// manyApart is the number of waits in a row that ended otherwise, after which the
	// last such sleep counts as a success.
	manyApart = 256

	// longApart is the number of such waits after which a wait spins for three chunks
	// before the first yield: the time of an answer that another core computes in a
	// microsecond or two.
	longApart = 16

	// freshSlice is the longest time since the goroutine's time slice began at which it
	// goes to sleep without beginning a new one, see reschedule.
	freshSlice = time.Millisecond

	// maxPark bounds a sleep, so that a lost wake or a peer that does not ring is
	// a delay and not a hang.
	maxPark = 100 * time.Millisecond

	// firstPark bounds the first sleep of a wait with a stop function. A signal to this
	// thread that comes just before the sleep does not end the sleep; stop sees its
	// effect when the sleep ends.
	firstPark = 10 * time.Millisecond
)

// Waiter waits for a change that another process makes, by the cheapest means that the
// load of the machine allows (the measurements are in docs/decisions.md):
//
//   - It spins with PAUSE for about a microsecond, which is best while both sides
//     have a core each.
//   - It calls sched_yield and times it. A slow one means that another thread ran on this
//     core, perhaps the one that is waited for. Then the next 16 waits hardly spin before
//     they yield; otherwise they spin on. No count of processes is needed, and with more
//     processes than cores this is much faster than to spin for a fixed time and then
//     sleep.
//   - On such a core it still spins for half a microsecond as long as that succeeds: an
//     answer from another core arrives sooner than the core is given away and taken back.
//   - If no other thread has needed the core for some waits, it spins for three
//     microseconds first: a yield takes as long as an answer that is computed on another
//     core.
//   - After 32 waits in a row that ended only because another thread had run on this core
//     it sleeps at once, instead of yielding: the kernel puts a woken thread on an idle
//     core, if there is one. It may otherwise leave two threads that talk to each other
//     on one core for many milliseconds, beside an idle one, and each message takes them
//     a switch.
//   - A waiter that was rung and finds nothing waits awake for 200 microseconds: the
//     other end rings ahead of a message.
//   - After 50 microseconds it announces its sleep on the bell, looks once more, and
//     parks. After three sleeps in a row that were shorter than 200 microseconds it waits
//     awake for those 200, until one sleep is longer: short sleeps cause more of them.
//     The end that waits for the one being woken runs out of patience too, and the
//     scheduler of a Go program that has slept looks for work every 20 microseconds for
//     some milliseconds, on a core that others need.
//
// While it spins it holds its P; while it is parked it does not.
//
// One goroutine at a time uses a Waiter, and a Bell has one Waiter.
type Waiter struct {
	bell   *Bell
	spin   int // pauses in a chunk of spinTime
	shared int // for this many more yields the core counts as shared
	// whether half a chunk of spinning pays on a shared core: before the first yield of a
	// wait, and after a yield
	before   trial
	after    trial
	epoch    time.Time     // of now
	patience time.Duration // to wait awake
	short    int           // short sleeps since the last longer one
	together int           // waits in a row that ended because another ran on this core
	enough   int           // that many of these make it sleep instead of yield
	apart    int           // waits in a row that ended otherwise
	park     time.Duration
	sliced   time.Duration // when reschedule last began a time slice
	parking  func()
	waits    uint64 // satisfied by spinning, not yet in stats
	spins    atomic.Uint64
	yields   atomic.Uint64
	sleeps   atomic.Uint64
	expired  atomic.Uint64
}

// WaiterOptions are the choices of NewWaiter; nil means all defaults.
type WaiterOptions struct {
	// Park is the longest sleep before looking again: 100 ms, which is also the
	// most.
	Park time.Duration

	// Parking is called before each sleep, after the bell was told of it and before the
	// last look: it may tell a source that makes ready true without ringing to ring from
	// now on. nil: nothing.
	Parking func()
}

// WaiterStats are counters since NewWaiter.
type WaiterStats struct {
	Spins   uint64 // waits that ended while spinning; up to 1024 behind
	Yields  uint64 // calls of sched_yield
	Sleeps  uint64 // parks on the bell
	Expired uint64 // of those, how many ended by time and not by a ring
}

// NewWaiter returns a waiter that sleeps on bell. It takes some 20 microseconds
// to time the machine's PAUSE.
func NewWaiter(bell *Bell, o *WaiterOptions) *Waiter {
	w := &Waiter{bell: bell, epoch: time.Now(), patience: minPatience, park: maxPark, enough: minTogether}
	if o != nil {
		if o.Park > 0 {
			w.park = min(o.Park, maxPark)
		}
		w.parking = o.Parking
	}
	w.spin = max(minSpin, pausesIn(spinTime))
	bell.promise()
	return w
}

// now is the monotonic time since epoch: half the cost of time.Now.
func (w *Waiter) now() time.Duration { return time.Since(w.epoch) }

// Wait returns true when ready does, and false when stop does. It calls ready very often:
// it should be a few loads, such as the Ready of some consumers. Once it has returned
// true it is not called again, so it may take what it found. Stop may be nil. While the
// waiter sleeps they are called again only when the bell is rung, or after the longest
// sleep; the goroutine that makes stop true should ring the bell then. Nothing is
// allocated.
func (w *Waiter) Wait(ready, stop func() bool) bool {
	return w.WaitFor(ready, stop, -1)
}

// WaitFor is Wait for at most d, and false after that; negative means for ever.
func (w *Waiter) WaitFor(ready, stop func() bool, d time.Duration) bool {
	// A first chunk before any look at the clock, which takes as long as a cache
	// line takes to arrive.
	chunks := 1
	if w.alone() {
		chunks = 3
	}
	for range chunks {
		if w.spinOnce(ready, &w.before) {
			w.ended(false)
			return true
		}
	}
	start := w.now()
	first := stop != nil
	for rung := !w.leave(); ; {
		// After a sleep that ended by time alone nothing is about to come: an idle
		// waiter looks ten times a second and does not spin for it.
		if rung && w.awake(ready, stop, start, d) {
			return true
		}
		if stop != nil && stop() {
			return false
		}
		left := w.park
		if first {
			left, first = min(left, firstPark), false
		}
		if d >= 0 {
			if left = min(left, d-(w.now()-start)); left <= 0 {
				return ready()
			}
		}
		var ok bool
		if ok, rung = w.sleep(ready, stop, left); ok {
			return true
		}
		if rung { // the bell was rung ahead of a message
			w.patience = maxPatience
		}
	}
}

// trial is whether half a chunk of spinning is worth it on a shared core.
type trial struct {
	looks uint // chunks
	hope  int  // half chunks that may yet be in vain
}

// spinOnce spins for one chunk, or what is left of it on a shared core.
func (w *Waiter) spinOnce(ready func() bool, t *trial) bool {
	var ok bool
	if w.shared > 0 {
		ok = t.spin(ready, w.spin)
	} else {
		_, ok = spin(ready, w.spin)
	}
	if !ok {
		return false
	}
	if w.waits++; w.waits%1024 == 0 {
		w.spins.Store(w.waits)
	}
	return true
}

// spin spins for half a chunk if that has succeeded lately, and otherwise now and then to
// find out whether it would. chunk is the number of pauses in a whole one. An answer at
// the first look does not count: it would have come without spinning.
func (t *trial) spin(ready func() bool, chunk int) bool {
	t.looks++
	if t.hope == 0 && t.looks%tryEvery != 0 {
		return ready()
	}
	pauses, ok := spin(ready, chunk/2)
	switch {
	case !ok:
		t.hope = max(t.hope-1, 0)
	case pauses > 0:
		t.hope = maxVain
	}
	return ok
}

// awake yields and spins until ready, stop or the end of patience, and reports
// whether ready. d bounds the whole wait that began at start.
func (w *Waiter) awake(ready, stop func() bool, start, d time.Duration) bool {
	began := w.now()
	for {
		after := w.Yield()
		if w.spinOnce(ready, &w.after) {
			w.ended(w.shared == sharedWaits)
			return true
		}
		if after-began > w.patience || d >= 0 && after-start > d {
			return false
		}
		if stop != nil && stop() {
			return false
		}
	}
}

// ended takes note of how a wait did that did not sleep: because another ran on this
// core, or not.
func (w *Waiter) ended(shared bool) {
	if shared {
		w.together, w.apart = w.together+1, 0
		return
	}
	w.together = max(w.together-4, 0)
	if w.apart++; w.apart == manyApart {
		w.enough = minTogether
	}
}

// alone reports whether no other thread has needed this core for a while: then a yield is
// no use, and takes as long as an answer.
func (w *Waiter) alone() bool { return w.shared == 0 && w.apart >= longApart }

// leave reports whether it is time to sleep, so as to be woken on another core.
func (w *Waiter) leave() bool {
	if w.together < w.enough {
		return false
	}
	w.together, w.enough = 0, min(2*w.enough, maxTogether)
	return true
}

// Yield gives the core away once and notes whether another thread ran, for waits that
// know better than Wait when to look. It returns a time after that, counted from the
// making of the Waiter.
func (w *Waiter) Yield() time.Duration {
	before := w.now()
	yield()
	after := w.now()
	w.yields.Add(1)
	if after-before > slowYield {
		w.shared = sharedWaits
	} else if w.shared > 0 {
		w.shared--
	}
	return after
}

// Pauses is how many PAUSEs take about a microsecond on this machine.
func (w *Waiter) Pauses() int { return w.spin }

// Shared reports whether other threads need the core as well: whether one ran during the
// last yields.
func (w *Waiter) Shared() bool { return w.shared > 0 }

// sleep parks on the bell for at most d and reports whether ready, and whether the bell
// was rung. The order matters: announce, look again, park. The other end makes ready true
// by a store and then loads the bell, so either its store is seen here or it rings.
func (w *Waiter) sleep(ready, stop func() bool, d time.Duration) (ok, rung bool) {
	w.spins.Store(w.waits)
	w.reschedule()
	w.bell.announce()
	if w.parking != nil {
		w.parking()
	}
	if ok = ready(); ok || stop != nil && stop() {
		w.bell.retract()
		return ok, true
	}
	w.sleeps.Add(1)
	before := w.now()
	w.bell.park(d)
	if rung = w.bell.rung(); !rung {
		w.expired.Add(1)
	}
	w.slept(w.now()-before, rung)
	w.bell.retract()
	return ready(), rung
}

// reschedule makes the Go scheduler begin a new time slice of this goroutine before it
// sleeps. The scheduler's monitor takes the P of a goroutine that is in a system call and
// more than 10 ms into its slice. After that the monitor looks every 20 microseconds for
// a while. Each look preempts the thread that runs on the monitor's core, which often is
// the goroutine that has just been woken. In a new slice the monitor leaves sleeps of
// less than 10 ms alone, and looks every 10 ms.
func (w *Waiter) reschedule() {
	if now := w.now(); now-w.sliced >= freshSlice {
		w.sliced = now
		runtime.Gosched()
	}
}

// slept chooses the patience after a sleep of d that ended by a ring, or by its time.
func (w *Waiter) slept(d time.Duration, rung bool) {
	switch {
	case d >= maxPatience:
		w.short, w.patience = 0, minPatience
	case rung:
		if w.short++; w.short >= manyShort {
			w.patience = maxPatience
		}
	}
}

// Stats returns the counters. It may be called at any time from any goroutine.
func (w *Waiter) Stats() WaiterStats {
	return WaiterStats{
		Spins:   w.spins.Load(),
		Yields:  w.yields.Load(),
		Sleeps:  w.sleeps.Load(),
		Expired: w.expired.Load(),
	}
}
