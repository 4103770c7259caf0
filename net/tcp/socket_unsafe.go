package tcp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawBytes is up to how many bytes a system call may move without the scheduler being
// told: it is over in a few microseconds, and telling costs as much as a tenth of that.
const rawBytes = 64 << 10

// sendmsg writes the buffers of iov, total bytes, as far as the socket takes them now.
func sendmsg(fd int, iov []unix.Iovec, total int) (int, error) {
	return message(unix.SYS_SENDMSG, fd, iov, total, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// recvmsg reads into the buffers of iov, total bytes, what has arrived; 0 is the end.
func recvmsg(fd int, iov []unix.Iovec, total int) (int, error) {
	return message(unix.SYS_RECVMSG, fd, iov, total, unix.MSG_DONTWAIT)
}

// message never blocks. The buffers stay reachable through iov and where they are, for
// the collector moves nothing on the heap and iov is never on a stack.
func message(trap uintptr, fd int, iov []unix.Iovec, total int, flags uintptr) (int, error) {
	var m unix.Msghdr
	m.Iov = unsafe.SliceData(iov)
	m.SetIovlen(len(iov))
	for {
		var n uintptr
		var e syscall.Errno
		if total <= rawBytes {
			n, _, e = unix.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&m)), flags)
		} else {
			n, _, e = unix.Syscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&m)), flags)
		}
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

// buffer returns the bytes that v describes.
func buffer(v unix.Iovec) []byte { return unsafe.Slice(v.Base, v.Len) }

// iovec describes b, which must not be empty.
func iovec(b []byte) (v unix.Iovec) {
	v.Base = unsafe.SliceData(b)
	v.SetLen(len(b))
	return v
}
