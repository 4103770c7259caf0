package ipc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
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

// Number returns the number of c's descriptor; -1 if it is closed.
func Number(c syscall.Conn) (n int) {
	n = -1
	_ = WithFD(c, func(fd int) error { n = fd; return nil })
	return n
}

// Crowded returns an error for the log and for the peer if this process has no descriptor
// for another client, beside those that are kept. c is the client's connection.
func Crowded(c syscall.Conn) error {
	l := limits.OpenFiles()
	if !l.Low(Number(c)) {
		return nil
	}
	// others may have been closed since c was opened
	if fd, err := Duplicate(c); err == nil {
		unix.Close(fd)
		if !l.Low(fd) {
			return nil
		}
	}
	return fmt.Errorf("too many clients: %v", l)
}
