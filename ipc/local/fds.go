package local

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/encoding"
	"github.com/ringside-go/ringside/shm/limits"
)

// oobSize holds the control messages of a datagram with MaxFiles descriptors, and one
// more, so that too many are seen also where MSG_CTRUNC is lost on the way (qemu-user
// does so). A descriptor of the sender's process, which no peer may have the kernel add,
// has room behind them: it would be cut off as if this process had no descriptor left.
func oobSize() int { return unix.CmsgSpace(4*(ipc.MaxFiles+1)) + unix.CmsgSpace(4) }

// sendFiles sends one datagram with descriptors. The files stay open. It waits while more
// descriptors of this user are on their way, between any processes, than this one may
// have open: the kernel then takes no more.
func sendFiles(st *steps, sock *net.UnixConn, data []byte, files ...*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		if err := ipc.WithFD(f, func(fd int) error { fds[i] = fd; return nil }); err != nil {
			return err
		}
	}
	n, _, err := sock.WriteMsgUnix(data, unix.UnixRights(fds...), nil)
	for end := time.Now().Add(fileSendTimeout); errors.Is(err, unix.ETOOMANYREFS) && time.Now().Before(end); {
		st.took("files wait")
		<-time.After(shortPause)
		n, _, err = sock.WriteMsgUnix(data, unix.UnixRights(fds...), nil)
	}
	if errors.Is(err, unix.ETOOMANYREFS) {
		err = fmt.Errorf("%w: processes of this user have not received as many descriptors as this one may have, %v", err, limits.OpenFiles())
	}
	if err == nil && n != len(data) {
		err = fmt.Errorf("local: %d of %d bytes of a datagram sent", n, len(data))
	}
	for _, f := range files {
		runtime.KeepAlive(f)
	}
	return err
}

// errShort is returned by recvFiles when this process can open no more descriptors.
var errShort = errors.New("no descriptor is left")

// shortPause is the time between two tries of what needs a descriptor when none is left.
const shortPause = 10 * time.Millisecond

// recvFiles reads one datagram into data and returns its length and the descriptors that
// came with it. The kernel drops the descriptors for which this process has no numbers
// left. So the datagram is looked at first, and stays where it is if not all came:
// errShort, after which the caller tries again. More descriptors than a peer may send are
// ErrCorrupt.
func recvFiles(sock *net.UnixConn, data, oob []byte) (int, []*os.File, error) {
	n, oobn, flags, err := recvmsg(sock, data, oob, unix.MSG_PEEK)
	if err != nil {
		return 0, nil, err
	}
	files, err := parseFiles(oob[:oobn])
	switch {
	case err != nil:
	case len(files) > ipc.MaxFiles:
		err = fmt.Errorf("%w: more than %d descriptors in a message", ipc.ErrCorrupt, ipc.MaxFiles)
	case flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("%w: this process may have %v", errShort, limits.OpenFiles())
	case flags&unix.MSG_TRUNC != 0:
		err = fmt.Errorf("%w: datagram of more than %d bytes", ipc.ErrCorrupt, len(data))
	case n == 0 && oobn == 0:
		err = io.EOF
	default:
		// without room for descriptors, which are here already
		_, _, _, err = recvmsg(sock, data, nil, 0)
	}
	if err != nil {
		ipc.CloseFiles(files)
		return 0, nil, err
	}
	return n, files, nil
}

// recvmsg reads a datagram with flags. It returns the errors of a read of the socket.
func recvmsg(sock *net.UnixConn, data, oob []byte, flags int) (n, oobn, got int, err error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return 0, 0, 0, err
	}
	errRead := raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, got, _, err = unix.Recvmsg(int(fd), data, oob, flags|unix.MSG_CMSG_CLOEXEC)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if errRead != nil {
		return 0, 0, 0, errRead
	}
	return n, oobn, got, os.NewSyscallError("recvmsg", err)
}

// recvGreeting is recvFiles that waits for descriptors until the socket's deadline.
func recvGreeting(sock *net.UnixConn) (data []byte, files []*os.File, err error) {
	buf, oob := make([]byte, encoding.MaxHandshake), make([]byte, oobSize())
	var short error
	for {
		n, files, err := recvFiles(sock, buf, oob)
		if !errors.Is(err, errShort) {
			if err != nil && short != nil {
				err = fmt.Errorf("%w: %w", err, short)
			}
			return buf[:n], files, err
		}
		short = err
		relieve()
		<-time.After(shortPause)
	}
}

// parseFiles makes files of every descriptor in the control messages, also where it
// returns an error: ErrCorrupt for a control message of another type. This process asks
// for none, but a peer may have a descriptor of the same socket and set its options.
func parseFiles(oob []byte) (files []*os.File, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	for _, fd := range ipc.Descriptors(oob) {
		files = append(files, os.NewFile(uintptr(fd), "shared"))
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return files, fmt.Errorf("%w: control message: %w", ipc.ErrCorrupt, err)
	}
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_SOCKET || m.Header.Type != unix.SCM_RIGHTS {
			return files, fmt.Errorf("%w: control message of level %d and type %d, expected descriptors alone", ipc.ErrCorrupt, m.Header.Level, m.Header.Type)
		}
	}
	return files, nil
}
