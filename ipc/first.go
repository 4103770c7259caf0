package ipc

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// AwaitFirst waits until the peer of a socket has sent something or hung up, and leaves
// it in the socket. It waits up to the socket's deadline for reading.
func AwaitFirst(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if err = raw.Read(said); err == nil {
		return nil
	}
	if Said(c) { // it came while this goroutine waited for a processor
		return nil
	}
	return err
}

// Said reports whether the peer of a socket has sent something, or hung up.
func Said(c syscall.Conn) (yes bool) {
	raw, err := c.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { yes = said(fd) }) == nil && yes
}

func said(fd uintptr) bool {
	var b [1]byte
	_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err != unix.EAGAIN
}
