package ipc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// WithFD calls f with the descriptor of c, which stays open meanwhile, and returns its
// error. Unlike os.File.Fd it does not make a pipe or a socket blocking.
func WithFD(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if errControl := raw.Control(func(fd uintptr) { err = f(int(fd)) }); errControl != nil {
		return errControl
	}
	return err
}

// Duplicate returns another descriptor of what c is open to, or an error of the system.
func Duplicate(c syscall.Conn) (fd int, err error) {
	err = WithFD(c, func(old int) error {
		fd, err = unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 0)
		return os.NewSyscallError("fcntl", err)
	})
	return fd, err
}
