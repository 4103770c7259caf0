package ring

import (
	"syscall"
	"time"
)

// maxPauses bounds what pausesIn returns, whatever the clock said.
const maxPauses = 256

// pausesIn returns how many PAUSEs take about d, at least 1 and at most maxPauses. It
// takes some 20 microseconds to measure that: a PAUSE takes ten times longer on some
// processors than on others.
func pausesIn(d time.Duration) int {
	const n = maxPauses / 4
	best := time.Hour
	for range 5 { // the fastest of them was not interrupted
		start := time.Now()
		pause(n)
		best = min(best, time.Since(start))
	}
	if best <= 0 {
		return maxPauses
	}
	return max(1, min(maxPauses, int(d*n/best)))
}

// spin calls ready up to n times with a PAUSE between, and reports whether it
// said yes, and after how many pauses.
//
// It must stay an ordinary function, neither inlined nor a leaf. Its prologue is
// where a spinning goroutine can be stopped: the assembly in pause is never a
// safe point, and a loop that spends nearly all its time there is hit outside it
// so rarely that a garbage collection was seen to wait ten seconds.
//
//go:noinline
func spin(ready func() bool, n int) (pauses int, ok bool) {
	for i := range n {
		if ready() {
			return i, true
		}
		pause(1)
	}
	return n, false
}

// yield gives the core to another thread that wants it. It is the raw system call, since
// the other kind would hand the P over and back; it returns at once, so no goroutine
// waits for the P. It is not inlined, for the reason given at spin. runtime.Gosched would
// not do: it knows goroutines only, and takes milliseconds when other processes want the
// core.
//
//go:noinline
func yield() {
	syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
}
