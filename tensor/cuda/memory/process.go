package memory

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Process is another process of this one's PID namespace, whose end is waited for.
type Process struct {
	file  *os.File // of its pidfd
	ended atomic.Bool
	over  sync.WaitGroup
}

// WatchProcess calls f, in a goroutine, when the process with that number ends. The
// caller knows afterwards that the process is alive: otherwise the number may have been
// that of another one.
func WatchProcess(pid int, f func()) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", pid, err)
	}
	p := &Process{file: os.NewFile(uintptr(fd), "process")}
	raw, err := p.file.SyscallConn()
	if err != nil {
		p.file.Close()
		return nil, fmt.Errorf("watching process %d: %w", pid, err)
	}
	p.over.Go(func() {
		// The function is called again when the descriptor may have become readable.
		err := raw.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, 0)
			return err == nil && n == 1
		})
		if err == nil {
			p.ended.Store(true)
			f()
		}
	})
	return p, nil
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool { return p.ended.Load() }

// Close ends the watch. f is not called any more when it returns.
func (p *Process) Close() error {
	err := p.file.Close()
	p.over.Wait()
	return err
}
