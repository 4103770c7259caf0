package shm

import (
	"os"

	"golang.org/x/sys/unix"
)

// Of membarrier(2), linux/membarrier.h.
const (
	membarrierGlobalExpedited         = 1 << 1
	membarrierRegisterGlobalExpedited = 1 << 2
)

// Barrier makes every thread that runs in any process that has called HeedBarriers
// pass a full memory fence before it returns: about a microsecond for a fence that
// the others then need not make all the time. An error means that this kernel or
// sandbox has none.
//
// The ordinary system call: it waits for other cores, which a hypervisor may have
// taken away.
func Barrier() error {
	if _, _, e := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobalExpedited, 0, 0); e != 0 {
		return os.NewSyscallError("membarrier", e)
	}
	return nil
}

// HeedBarriers makes this process's threads, later ones included, take part in the
// Barrier of every process. Once is enough; again costs a system call.
func HeedBarriers() error {
	if _, _, e := unix.Syscall(unix.SYS_MEMBARRIER, membarrierRegisterGlobalExpedited, 0, 0); e != 0 {
		return os.NewSyscallError("membarrier", e)
	}
	return nil
}
