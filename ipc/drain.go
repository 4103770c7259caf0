package ipc

import (
	"encoding/binary"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/limits"
)

const (
	// maxDraining bounds the descriptors that all drains of this process have open at a
	// time; an eighth of the descriptors that the process may have is another bound. A
	// drain that ends early may hold some of them for as long as the last closes wait. A
	// message has 253 at most.
	maxDraining = 1024

	// maxDrained bounds the messages, connections and descriptors that one drain takes
	// out of queues.
	maxDrained = 1 << 16
)

// draining is how many descriptors the drains of this process have open.
var draining atomic.Int64

// drain empties sockets that are about to be closed. The queue of a unix socket may hold
// descriptors, also of sockets whose queues hold others. When the last descriptor of the
// first socket is closed, the kernel closes all of these one after the other, and waits
// for each that lingers. So drain takes them out and closes each as if it had been sent
// by itself.
//
// A drain ends early, and leaves the rest to the kernel, at the bounds above and where
// this process has few descriptors left.
//
// The peer may hold other descriptors of the same sockets. So any option may have been
// changed, the peer may receive at the same time, and a socket may be queued in itself.
type drain struct {
	left int // messages, connections and descriptors
	data []byte
	oob  []byte
}

// socket prepares a socket for a close that doesn't wait: it turns lingering off, and
// empties the queue of a unix socket, which takes nothing more. It leaves other files as
// they are.
func (d *drain) socket(fd int) {
	if !forgoLinger(fd) {
		return
	}
	if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
		return
	}
	// From here on nothing more is queued, and accept doesn't wait.
	_ = unix.Shutdown(fd, unix.SHUT_RD)
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && listens != 0 {
		d.connections(fd)
	} else {
		d.messages(fd)
	}
}

// forgoLinger turns lingering off, so that the close of a socket returns at once; the
// kernel still sends the bytes that it has. It reports whether the file is a socket.
func forgoLinger(fd int) bool {
	l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER)
	if err == nil && l.Onoff != 0 && l.Linger != 0 {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
	return err == nil
}

// connections empties the queue of a socket that listens.
func (d *drain) connections(fd int) {
	for d.left > 0 {
		c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		d.close([]int{c})
	}
}

// messages empties the queue of a socket that is connected, or may be.
func (d *drain) messages(fd int) {
	if d.data == nil {
		// The control data of a message is its descriptors, and the label of the kernel's
		// security module.
		d.data, d.oob = make([]byte, 16<<10), make([]byte, 4<<10)
	}
	set := func(option, value int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, value) }
	// With credentials an empty message can be told from the end of the connection. A
	// stream has no empty messages.
	set(unix.SO_PASSCRED, 1)
	set(unix.SO_PEEK_OFF, -1)
	set(unix.SO_OOBINLINE, 1)
	kind, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	for ; d.left > 0; d.left-- {
		// A message stays in the queue until its descriptors have been counted.
		n, oobn, flags, _, err := unix.Recvmsg(fd, d.data, d.oob, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err == unix.ECONNRESET {
			continue // the kernel says once that the other end was closed
		}
		if err != nil || n == 0 && (oobn == 0 || kind == unix.SOCK_STREAM) {
			return
		}
		fds := Descriptors(d.oob[:oobn])
		if flags&unix.MSG_CTRUNC != 0 || d.crowded(fds) {
			d.left = 0
		} else {
			// Of a stream these are the bytes that were looked at, and so the same
			// descriptors.
			_, _, _, _, err = unix.Recvmsg(fd, d.data[:n], nil, unix.MSG_DONTWAIT)
		}
		d.close(fds)
		if err != nil {
			return
		}
	}
}

// crowded reports whether with fds the drains of this process have as many descriptors
// open as they may.
func (d *drain) crowded(fds []int) bool {
	all := limits.OpenFiles()
	for _, fd := range fds {
		if all.Scarce(fd) {
			return true
		}
	}
	return draining.Load()+int64(len(fds)) > min(maxDraining, int64(all.Max/8))
}

// close closes descriptors that were taken out of a queue.
func (d *drain) close(fds []int) {
	draining.Add(int64(len(fds)))
	for _, fd := range fds {
		if d.left > 0 {
			d.left--
			d.socket(fd)
		}
		_ = unix.Close(fd)
		draining.Add(-1)
	}
}

// Descriptors returns those that came with a message, whose control messages are oob:
// those that the sender sent, and that of its process, which the kernel adds if the
// socket has SO_PASSPIDFD.
func Descriptors(oob []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && (m.Header.Type == unix.SCM_RIGHTS || m.Header.Type == unix.SCM_PIDFD) {
			for b := m.Data; len(b) >= 4; b = b[4:] {
				if fd := int32(binary.NativeEndian.Uint32(b)); fd >= 0 { // else an error
					fds = append(fds, int(fd))
				}
			}
		}
	}
	return fds
}
