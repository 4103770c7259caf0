package ring

import (
	"fmt"
	"sync/atomic"
	"time"
)

// BellSize is the number of bytes of a bell: one line and its neighbour, so
// that the polling of rings beside it does not disturb it.
//
//	 0  magic    8 bytes
//	 8  version  4 bytes  Layout
//	12  state    4 bytes  0 awake, 1 asleep or about to be; the futex word
//	16  barrier  4 bytes  1 once the sleeper makes a barrier before it parks
//
// InitBell writes magic and version before the memory is shared. Only tools read them
// (InspectBell). Every end that rings can write them, so ends don't trust them: they
// agree on the layout in another way, such as a greeting. The sleeper alone writes
// barrier (1, once). The ends that ring load it when they attach and, while they still
// make a fence of their own, when they ring.
//
// A value that no correct end stores in state or barrier costs the sleeper at most one
// park, or makes it wake for nothing. Nothing else depends on the two words.
//
// State has several writers. The sleeper stores 1 (announce) and 0. An end that rings
// loads it and, if it is 1, exchanges it for 0; of several that do, only the one that
// gets the 1 back makes the system call. Rouse, in any goroutine of the sleeper's
// process, stores 0 and always makes the call. The order that matters: the sleeper stores
// state 1 and then loads the words that it waits for, and the other end stores such a
// word and then loads state. With a full fence between store and load on both sides at
// least one load sees the other end's store, so either the sleeper finds its word or it
// is woken. Fences are in the package's page.
const BellSize = 128

const (
	bellMagic = 0x6c6c6562_64736e72 // "rnsdbell" in memory, little endian

	offState   = 12
	offBarrier = 16

	bellAwake  = 0
	bellAsleep = 1
)

// Futex parks and wakes: package shm has the real one, tests have others.
type Futex struct {
	// Wait sleeps while *word is val, at most for timeout. It may return early,
	// and what it returns is not looked at. Never without a timeout: a lost or
	// withheld wake must end by itself.
	Wait func(word *uint32, val uint32, timeout time.Duration) error

	// Wake wakes at most n sleepers.
	Wake func(word *uint32, n int) error

	// Barrier makes a full fence in every running thread of every process that has called
	// Heed, so that the ends that ring need none of their own. Both are nil where the
	// system has no such call, and an error of either means the same.
	Barrier func() error
	Heed    func() error
}

// Bell is the word that a goroutine sleeps on, as the consumer or the producer of however
// many rings. One goroutine at a time sleeps on it, through a Waiter; Ring may be called
// from any goroutine of any process that maps it.
type Bell struct {
	state    *uint32
	barrier  *uint32
	futex    Futex
	promised bool // announce makes a barrier
	// Ring makes a fence: the sleeper makes no barrier, or this process takes no part
	fence   atomic.Bool
	heeding atomic.Bool // we have tried to
	wakes   atomic.Uint64
}

// InitBell makes mem, BellSize bytes at a multiple of 8, a bell on which no end sleeps.
func InitBell(mem []byte) error {
	if err := checkBell(mem); err != nil {
		return err
	}
	clear(mem[:BellSize])
	atomic.StoreUint32(word32(mem, offVersion), Layout)
	atomic.StoreUint64(word64(mem, offMagic), bellMagic)
	return nil
}

func checkBell(mem []byte) error {
	if len(mem) != BellSize || !aligned(mem, 8) {
		return fmt.Errorf("%w: a bell of %d bytes, expected %d at a multiple of 8", ErrLayout, len(mem), BellSize)
	}
	return nil
}

// NewBell attaches to a bell that InitBell has made. It may lie in other memory than the
// rings it serves. It returns ErrLayout for memory of another size or alignment.
func NewBell(mem []byte, futex Futex) (*Bell, error) {
	if err := checkBell(mem); err != nil {
		return nil, err
	}
	b := &Bell{state: word32(mem, offState), barrier: word32(mem, offBarrier), futex: futex}
	b.fence.Store(needsFence)
	b.heed()
	return b, nil
}

// Ring wakes the sleeper if there is one: one load otherwise, and a fence in front
// of it unless the sleeper makes a barrier. Either way what was stored before, as
// by Producer.Publish, is seen by a sleeper that is not woken.
func (b *Bell) Ring() { // small enough to be inlined: it is part of every message
	if b.fence.Load() || atomic.LoadUint32(b.state) != bellAwake {
		b.ring()
	}
}

func (b *Bell) ring() {
	if b.fence.Load() {
		fullFence()
		b.heed()
	}
	if atomic.LoadUint32(b.state) != bellAwake {
		b.wake()
	}
}

// heed lets Ring go without its fence once the sleeper has promised barriers, which it
// may do after this end attached. Every later sleep comes with a barrier.
func (b *Bell) heed() {
	if atomic.LoadUint32(b.barrier) == 0 || b.futex.Heed == nil || b.heeding.Swap(true) {
		return
	}
	if b.futex.Heed() == nil {
		b.fence.Store(false)
	}
}

// wake is the rare half of Ring. Between the exchange and the system call the
// sleeper may have woken by itself and gone to sleep anew; it is then woken for
// nothing and looks again.
//
//go:noinline
func (b *Bell) wake() {
	if atomic.SwapUint32(b.state, bellAwake) == bellAsleep {
		b.wakes.Add(1)
		b.futex.Wake(b.state, 1)
	}
}

// Rouse wakes the sleeper in any state of the bell, with a system call. It is for the
// case that another process that rings this bell has died: between the exchange and the
// system call of Ring it leaves the bell at "awake" and the sleeper asleep.
func (b *Bell) Rouse() {
	atomic.StoreUint32(b.state, bellAwake)
	b.wakes.Add(1)
	b.futex.Wake(b.state, 1)
}

// Wakes returns how many times Ring has made the system call.
func (b *Bell) Wakes() uint64 { return b.wakes.Load() }

// promise makes announce use the barrier from now on, and publishes that in the bell. It
// does nothing where the system has no barrier or ringing needs no fence.
func (b *Bell) promise() {
	if needsFence && b.futex.Barrier != nil && b.futex.Barrier() == nil {
		atomic.StoreUint32(b.barrier, 1)
		b.promised = true
	}
}

// announce stores "asleep" and then makes a full fence: the sleeper's later loads are not
// made before the store is visible. The barrier makes the same fence in the ends that
// ring: either the sleeper's later loads see what such an end stored before the barrier,
// or the end's load of state after it sees "asleep". The caller looks for work once more
// before it calls park.
func (b *Bell) announce() {
	atomic.StoreUint32(b.state, bellAsleep)
	if b.promised {
		// The barrier worked when it was promised. If it fails now, a wake may be as late
		// as the longest park.
		_ = b.futex.Barrier()
	}
}

// retract stores "awake".
func (b *Bell) retract() { atomic.StoreUint32(b.state, bellAwake) }

// park sleeps until the bell is rung after announce, or for at most d.
func (b *Bell) park(d time.Duration) { b.futex.Wait(b.state, bellAsleep, d) }

// rung reports whether the bell has been rung since announce.
func (b *Bell) rung() bool { return atomic.LoadUint32(b.state) == bellAwake }
