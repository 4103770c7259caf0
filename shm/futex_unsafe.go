package shm

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Not FUTEX_PRIVATE: the word is found by the page behind it, so that processes
// that map it at different addresses meet.
const (
	futexOpWait = 0
	futexOpWake = 1
)

// FutexWait sleeps while *word is val, at most for timeout; the word may be shared
// between processes. It returns nil when woken, when *word was not val, and when a signal
// interrupted it, ErrTimeout when the time was up: in every case the caller looks again.
// Every wait has a timeout, because a peer that died never wakes the sleeper.
//
// The ordinary system call, which gives the P away: a raw one would stop the
// goroutines of a whole P for as long as it sleeps.
func FutexWait(word *uint32, val uint32, timeout time.Duration) error {
	if timeout <= 0 {
		return ErrTimeout
	}
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait,
		uintptr(val), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch e {
	case 0, unix.EAGAIN, unix.EINTR:
		return nil
	case unix.ETIMEDOUT:
		return ErrTimeout
	}
	return os.NewSyscallError("futex wait", e)
}

// FutexWake wakes at most n sleepers on the word. It never sleeps, so the raw system call
// is enough.
func FutexWake(word *uint32, n int) error {
	_, _, e := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, uintptr(n), 0, 0, 0)
	if e != 0 {
		return os.NewSyscallError("futex wake", e)
	}
	return nil
}
