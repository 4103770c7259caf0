package limitstest

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/testneeds"
)

// WithoutMemfd calls f on a thread where the kernel answers memfd_create with errno, as
// seccomp profiles of containers do, and so do kernels that lack it. It is so in the
// processes that f starts, too. F may fail the test, and not end it.
func WithoutMemfd(t testing.TB, getenv func(string) string, errno unix.Errno, f func()) {
	t.Helper()
	const number = 0 // where struct seccomp_data has the number of the call
	program := [...]unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_MEMFD_CREATE, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	onThread(t, getenv, f, "filters of system calls", func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
		if err != 0 {
			return err
		}
		return nil
	})
}

// WithoutProc calls f on a thread that sees no /proc, and nor do the processes that f
// starts. F may fail the test, and not end it. Only root can: see NeedRoot.
func WithoutProc(t testing.TB, getenv func(string) string, f func()) {
	t.Helper()
	NeedRoot(t, getenv, "unmounting /proc")
	onThread(t, getenv, f, "namespaces of mounts", func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Unmount("/proc", unix.MNT_DETACH)
	})
}

// onThread calls f on a thread that is changed by change and then ends: a goroutine that
// stays locked to its thread takes it along.
func onThread(t testing.TB, getenv func(string) string, f func(), what string, change func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := change(); err != nil {
			done <- err
			return
		}
		f()
	}()
	if err := <-done; err != nil {
		testneeds.Root.Skipf(t, getenv, "no %s here: %v", what, err)
	}
}
