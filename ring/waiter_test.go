package ring

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestBellChecksTheMemory(t *testing.T) {
	mem := make([]byte, 2*BellSize)
	for _, bad := range [][]byte{nil, mem[:BellSize/2], mem, mem[4 : 4+BellSize]} {
		if err := InitBell(bad); !errors.Is(err, ErrLayout) {
			t.Errorf("InitBell of %d bytes: %v, expected ErrLayout", len(bad), err)
		}
		if _, err := NewBell(bad, Futex{}); !errors.Is(err, ErrLayout) {
			t.Errorf("NewBell of %d bytes: %v, expected ErrLayout", len(bad), err)
		}
	}
}

// TestBellNeedsNothingOfItsMemory attaches to a bell after another end has stored other
// values in each of its words, and wakes the sleeper by it.
func TestBellNeedsNothingOfItsMemory(t *testing.T) {
	for off := uint64(0); off < BellSize; off += 4 {
		f := newHeapFutex()
		mem := make([]byte, BellSize)
		if err := InitBell(mem); err != nil {
			t.Fatal(err)
		}
		own, err := NewBell(mem, f.futex())
		if err != nil {
			t.Fatal(err)
		}
		w := NewWaiter(own, nil)
		atomic.StoreUint32(word32(mem, off), 2)
		other, err := NewBell(mem, f.futex())
		if err != nil {
			t.Fatalf("with 2 at offset %d: %v", off, err)
		}
		var flag atomic.Bool
		done := make(chan bool)
		go func() { done <- w.Wait(flag.Load, nil) }()
		<-f.parked
		flag.Store(true)
		other.Ring()
		if !<-done {
			t.Fatalf("with 2 at offset %d: Wait returned false without a stop", off)
		}
	}
}

// TestRingWakesASleeper waits until the sleeper is parked, so the wake is one.
func TestRingWakesASleeper(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	w := NewWaiter(bell, nil)
	for range 20 {
		var flag atomic.Bool
		done := make(chan bool)
		go func() { done <- w.Wait(flag.Load, nil) }()
		<-f.parked
		flag.Store(true)
		bell.Ring()
		if !<-done {
			t.Fatal("Wait returned false without a stop")
		}
	}
	// A park may end by its own time on a loaded machine. Then no sleeper is there to be
	// woken, and that park is one of the expired.
	if s := w.Stats(); s.Sleeps < 20 || s.Sleeps-s.Expired > bell.Wakes() {
		t.Errorf("%+v with %d wakes, expected at least 20 sleeps", s, bell.Wakes())
	}
	if bell.Ring(); bell.state != nil && *bell.state != bellAwake {
		t.Error("the bell is not awake after Wait")
	}
}

// TestBellInvitesNobodyTwice: of several that ring, one makes the system call.
func TestBellInvitesNobodyTwice(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	for range 100 {
		bell.announce()
		done := make(chan bool)
		for range 4 {
			go func() { bell.Ring(); done <- true }()
		}
		for range 4 {
			<-done
		}
	}
	if bell.Wakes() != 100 {
		t.Errorf("%d wakes for 100 sleeps", bell.Wakes())
	}
}

func TestStopEndsTheWait(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	w := NewWaiter(bell, nil)
	never := func() bool { return false }
	if w.Wait(never, func() bool { return true }) {
		t.Error("Wait returned true when stopped at once")
	}
	var stop atomic.Bool
	done := make(chan bool)
	go func() { done <- w.Wait(never, stop.Load) }()
	<-f.parked
	stop.Store(true)
	bell.Ring()
	if <-done {
		t.Error("Wait returned true when stopped asleep")
	}
}

// TestNobodyRings: a waiter whose peer never rings sees its stores all the same.
func TestNobodyRings(t *testing.T) {
	f := newHeapFutex()
	w := NewWaiter(heapBell(t, f), &WaiterOptions{Park: time.Millisecond})
	var flag atomic.Bool
	done := make(chan bool)
	go func() { done <- w.Wait(flag.Load, nil) }()
	<-f.parked
	flag.Store(true)
	if !<-done {
		t.Error("Wait returned false")
	}
	if w.Stats().Expired == 0 {
		t.Error("no sleep expired")
	}
}

func TestWaitForEnds(t *testing.T) {
	w := NewWaiter(heapBell(t, newHeapFutex()), nil)
	never := func() bool { return false }
	for _, d := range []time.Duration{0, time.Microsecond, time.Millisecond} {
		if w.WaitFor(never, nil, d) {
			t.Errorf("WaitFor(%v) returned true", d)
		}
	}
	if !w.WaitFor(func() bool { return true }, nil, 0) {
		t.Error("WaitFor(0) did not look")
	}
}

// TestOnlyOneProcessor: waiter and waited for share a P, so the wait must give it
// away.
func TestOnlyOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	x, y := pair(t, 256)
	pingPong(t, x, y, 200)
}

func TestStress(t *testing.T) {
	for _, capacity := range []int{64, 256, 4096} {
		x, y := pair(t, capacity)
		pingPong(t, x, y, 3000)
		stream(t, x, y, 20000)
		stream(t, y, x, 20000)
	}
}

// pingPong sends numbered messages there and back.
func pingPong(t *testing.T, x, y end, n int) {
	t.Helper()
	done := make(chan error)
	go func() {
		msg := make([]byte, 16)
		for range n {
			k, err := y.recv(msg, y.c.Ready)
			if err == nil {
				err = y.send(msg[:k])
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	msg := make([]byte, 16)
	for i := range n {
		binary.LittleEndian.PutUint64(msg, uint64(i))
		size := 8 + i%9
		if err := x.send(msg[:size]); err != nil {
			t.Fatal(err)
		}
		k, err := x.recv(msg, x.c.Ready)
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(msg); k != size || got != uint64(i) {
			t.Fatalf("message %d of %d bytes came back as %d of %d", i, size, got, k)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// stream sends records of all sizes one way, some in batches, and checks every
// byte.
func stream(t *testing.T, x, y end, n int) {
	t.Helper()
	done := make(chan error)
	size := func(i int) int { return i * 7 % (x.p.MaxRecord() + 1) }
	go func() {
		for i := 0; i < n; {
			body, err := x.p.Reserve(size(i))
			if err == ErrFull {
				x.bell.Ring() // Reserve has published what was staged
				x.w.Wait(func() bool { return x.p.CanReserve(size(i)) }, nil)
				continue
			}
			if err != nil {
				done <- err
				return
			}
			for k := range body {
				body[k] = byte(i + k)
			}
			x.p.Stage(uint32(i))
			if i++; i%3 == 0 || i == n {
				x.p.Publish()
				x.bell.Ring()
			}
		}
		done <- nil
	}()
	for i := 0; i < n; {
		tag, body, err := y.c.Peek()
		if err == ErrEmpty {
			y.w.Wait(y.c.Ready, nil)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if tag != uint32(i) || len(body) != size(i) {
			t.Fatalf("record %d: tag %d, %d bytes", i, tag, len(body))
		}
		for k := range body {
			if body[k] != byte(i+k) {
				t.Fatalf("record %d, byte %d: %d", i, k, body[k])
			}
		}
		y.c.Release()
		i++
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestWaitTakesYesOnce: a ready that takes what it finds, as one that receives does,
// must not be asked again after its yes, at whatever step of the way to sleep it
// says it.
func TestWaitTakesYesOnce(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	for name, when := range map[string]func(calls int) bool{
		"at once":                 func(int) bool { return true },
		"while spinning":          func(calls int) bool { return calls == 5 },
		"having said I sleep":     func(int) bool { return !bell.rung() },
		"after a sleep cut short": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWaiter(bell, &WaiterOptions{Park: time.Millisecond})
			if when == nil {
				when = func(int) bool { return w.sleeps.Load() > 0 }
			}
			calls, yes := 0, 0
			if !w.WaitFor(func() bool {
				calls++
				if when(calls) {
					yes++
					return true
				}
				return false
			}, nil, 10*time.Second) {
				t.Error("the yes was lost")
			}
			if yes != 1 {
				t.Errorf("ready said yes %d times", yes)
			}
		})
	}
}

// TestPatience: some short sleeps in a row that a ring ended make the waiter wait longer
// awake, one long sleep makes it forget that.
func TestPatience(t *testing.T) {
	w := NewWaiter(heapBell(t, newHeapFutex()), nil)
	for i, step := range []struct {
		slept time.Duration
		rung  bool
		want  time.Duration
	}{
		{maxPatience - 1, true, minPatience},
		{0, true, minPatience},
		{0, false, minPatience},
		{maxPatience - 1, true, maxPatience},
		{0, true, maxPatience},
		{0, false, maxPatience},
		{maxPatience, true, minPatience},
		{0, true, minPatience},
		{0, true, minPatience},
		{maxPark, false, minPatience},
		{0, true, minPatience},
		{0, true, minPatience},
		{0, true, maxPatience},
	} {
		if w.slept(step.slept, step.rung); w.patience != step.want {
			t.Errorf("step %d: %v after a sleep of %v, expected %v", i, w.patience, step.slept, step.want)
		}
	}
}

// TestRungAhead: a waiter that was rung and finds nothing waits for it awake, for longer
// than at first.
func TestRungAhead(t *testing.T) {
	f := newHeapFutex()
	bell := heapBell(t, f)
	w := NewWaiter(bell, nil)
	var came, patient atomic.Bool
	done := make(chan bool)
	go func() {
		done <- w.Wait(func() bool {
			if w.patience == maxPatience {
				patient.Store(true)
			}
			return came.Load()
		}, nil)
	}()
	<-f.parked
	bell.Ring()
	<-f.parked // after that wait
	if !patient.Load() {
		t.Errorf("patience of %v after a ring that nothing came with, expected %v", minPatience, maxPatience)
	}
	came.Store(true)
	bell.Ring()
	<-done
}

// TestSleepsAreTimed: a waiter that sleeps too long for patience has none left over.
func TestSleepsAreTimed(t *testing.T) {
	var sleeps int
	f := Futex{
		Wait: func(*uint32, uint32, time.Duration) error {
			sleeps++
			for start := time.Now(); time.Since(start) < 2*maxPatience; {
			}
			return nil
		},
		Wake: func(*uint32, int) error { return nil },
	}
	w := NewWaiter(bellOf(t, f), nil)
	w.patience = maxPatience
	if !w.Wait(func() bool { return sleeps > 0 }, nil) {
		t.Error("Wait returned false without a stop")
	}
	if sleeps != 1 || w.patience != minPatience {
		t.Errorf("patience %v after %d sleeps, expected %v after one", w.patience, sleeps, minPatience)
	}
}

// TestFirstSleepIsShort wants a wait to call its stop function soon after it began.
func TestFirstSleepIsShort(t *testing.T) {
	var slept []time.Duration
	f := Futex{
		Wait: func(_ *uint32, _ uint32, d time.Duration) error { slept = append(slept, d); return nil },
		Wake: func(*uint32, int) error { return nil },
	}
	w := NewWaiter(bellOf(t, f), nil)
	for range 2 {
		slept = nil
		if w.Wait(func() bool { return false }, func() bool { return len(slept) == 3 }) {
			t.Fatal("Wait returned true")
		}
		if want := []time.Duration{firstPark, maxPark, maxPark}; !slices.Equal(slept, want) {
			t.Errorf("sleeps of %v, expected %v", slept, want)
		}
	}
	slept = nil
	w.Wait(func() bool { return len(slept) == 1 }, nil)
	if slept[0] != maxPark {
		t.Errorf("a sleep of %v without a stop, expected %v", slept[0], maxPark)
	}
}

// TestSpinOnASharedCore: a waiter there looks once, and tries half a chunk rarely, until
// that brings something.
func TestSpinOnASharedCore(t *testing.T) {
	w := NewWaiter(heapBell(t, newHeapFutex()), nil)
	w.shared = sharedWaits
	half := w.spin / 2
	looks := 0
	// spin says yes at the given look, 0 for never, and returns how many looks it took.
	spin := func(yes int) int {
		looks = 0
		ok := w.spinOnce(func() bool { looks++; return looks == yes }, &w.before)
		if ok != (yes > 0 && looks == yes) {
			t.Fatalf("%v after %d looks, with a yes at %d", ok, looks, yes)
		}
		return looks
	}
	// untilTried returns after how many chunks one is longer than a look.
	untilTried := func(yes int) int {
		for n := 1; n <= 2*tryEvery; n++ {
			if spin(yes) > 1 {
				return n
			}
		}
		t.Fatalf("not tried in %d chunks", 2*tryEvery)
		return 0
	}
	for range 2 {
		if n := untilTried(0); n != tryEvery || looks != half {
			t.Errorf("tried %d looks after %d chunks, expected %d after %d", looks, n, half, tryEvery)
		}
	}
	if n := untilTried(3); n != tryEvery || looks != 3 {
		t.Errorf("a yes after %d chunks and %d looks, expected it after %d and 3", n, looks, tryEvery)
	}
	for i := range maxVain {
		if i > 0 && spin(1) != 1 { // says nothing either way
			t.Error("looked again after a yes")
		}
		if n := spin(0); n != half {
			t.Errorf("%d looks, %d in vain after the yes; expected %d", n, i, half)
		}
	}
	if n := spin(0); n != 1 {
		t.Errorf("%d looks after %d in vain, expected 1", n, maxVain)
	}
}

// TestLeavesASharedCore: after enough waits that ended because another ran on this core
// the waiter sleeps at once, and then rarer and rarer, until waits end otherwise for a
// while. Then it also spins longer before it yields.
func TestLeavesASharedCore(t *testing.T) {
	futex := newHeapFutex()
	w := NewWaiter(heapBell(t, futex), nil)
	untilLeft := func() (n int) {
		for ; !w.leave(); n++ {
			if w.ended(true); n > maxTogether {
				t.Fatalf("never left in %d waits", n)
			}
		}
		return n
	}
	for _, want := range []int{minTogether, 2 * minTogether, 4 * minTogether} {
		if n := untilLeft(); n != want {
			t.Errorf("left after %d waits, expected %d", n, want)
		}
	}
	for range 12 {
		untilLeft()
	}
	if n := untilLeft(); n != maxTogether {
		t.Errorf("left after %d waits in the end, expected %d", n, maxTogether)
	}
	for i := range manyApart {
		if alone := w.alone(); alone != (i >= longApart) {
			t.Errorf("alone: %v after %d waits that nobody else had to do with", alone, i)
		}
		w.ended(false)
	}
	if n := untilLeft(); n != minTogether || w.alone() {
		t.Errorf("left after %d waits, expected %d again; alone: %v", n, minTogether, w.alone())
	}

	before := w.Stats()
	w.together = w.enough
	looks := 0
	w.Wait(func() bool { looks++; return w.Stats().Sleeps > before.Sleeps }, func() bool {
		if w.Stats().Yields > before.Yields {
			t.Error("it yielded first")
		}
		return false
	})
	if st := w.Stats(); st.Sleeps != before.Sleeps+1 || looks == 0 {
		t.Errorf("%d sleeps, expected one", st.Sleeps-before.Sleeps)
	}
}
