package local

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Cores is how many cores the calling thread may run on; 0 if that is not known.
func Cores() int {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return 0
	}
	return all.Count()
}

// Bind has the calling goroutine, which keeps its thread from then on, run on one core
// alone: the n-th of those that it may run on, counted round and round. The same
// goroutine calls unbind, after which all is as before; other threads run where they did.
// Processes that wait for each other awake are best off on cores of their own: the kernel
// may as well leave two of them on one, beside one that another of them waits on, and has
// no reason to change that.
func Bind(n int) (unbind func(), err error) {
	runtime.LockOSThread()
	var all unix.CPUSet
	if err = unix.SchedGetaffinity(0, &all); err == nil {
		one := nth(&all, n%all.Count())
		err = unix.SchedSetaffinity(0, &one)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("local: bind: %w", os.NewSyscallError("sched_setaffinity", err))
	}
	return func() {
		_ = unix.SchedSetaffinity(0, &all) // which it had
		runtime.UnlockOSThread()
	}, nil
}

// Move has the calling thread go on on the core of that number, at once. From then on it
// may run where it might before: the kernel will leave it there as long as there is no
// reason not to. false: it may not run there.
func Move(core int) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || !all.IsSet(core) {
		return false
	}
	one.Set(core)
	return unix.SchedSetaffinity(0, &one) == nil && unix.SchedSetaffinity(0, &all) == nil
}

// nth is the n-th core of a set alone.
func nth(set *unix.CPUSet, n int) (one unix.CPUSet) {
	for cpu := 0; ; cpu++ {
		if !set.IsSet(cpu) {
			continue
		}
		if n == 0 {
			one.Set(cpu)
			return one
		}
		n--
	}
}

// SetTimerSlack says by how much sleeps of the calling thread may be longer than they
// should, which is 50 µs by default, and of all threads and processes that it starts. The
// caller keeps the thread.
func SetTimerSlack(d time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()), 0, 0, 0); err != nil {
		return fmt.Errorf("local: timer slack of %v: %w", d, os.NewSyscallError("prctl", err))
	}
	return nil
}
