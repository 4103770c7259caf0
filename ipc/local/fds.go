package local

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// oobSize holds the control messages of a datagram with MaxFiles descriptors, and one
// more, so that too many are seen also where MSG_CTRUNC is lost on the way (qemu-user
// does so).
func oobSize() int { return unix.CmsgSpace(4 * (ipc.MaxFiles + 1)) }

// sendFiles sends one datagram with descriptors. The files stay open.
func sendFiles(sock *net.UnixConn, data []byte, files ...*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		if err := ipc.WithFD(f, func(fd int) error { fds[i] = fd; return nil }); err != nil {
			return err
		}
	}
	n, _, err := sock.WriteMsgUnix(data, unix.UnixRights(fds...), nil)
	if err == nil && n != len(data) {
		err = fmt.Errorf("local: %d of %d bytes of a datagram sent", n, len(data))
	}
	for _, f := range files {
		runtime.KeepAlive(f)
	}
	return err
}

// recvFiles reads one datagram into data and returns its length and the descriptors that
// came with it. Descriptors that did not all fit are ErrCorrupt: no peer sends as many,
// or this process has no more of them.
func recvFiles(sock *net.UnixConn, data, oob []byte) (int, []*os.File, error) {
	n, oobn, flags, _, err := sock.ReadMsgUnix(data, oob)
	files, errFiles := parseFiles(oob[:oobn])
	if err == nil {
		err = errFiles
	}
	if err == nil && (flags&unix.MSG_CTRUNC != 0 || len(files) > ipc.MaxFiles) {
		err = fmt.Errorf("%w: descriptors lost: more than %d in a message, or this process may open no more",
			ipc.ErrCorrupt, ipc.MaxFiles)
	}
	if err == nil && flags&unix.MSG_TRUNC != 0 {
		err = fmt.Errorf("%w: datagram of more than %d bytes", ipc.ErrCorrupt, len(data))
	}
	if err != nil {
		ipc.CloseFiles(files)
		return 0, nil, err
	}
	return n, files, nil
}

// parseFiles makes files of every descriptor in the control messages.
func parseFiles(oob []byte) (files []*os.File, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: control message: %w", ipc.ErrCorrupt, err)
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // of another type; asked for none
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "shared"))
		}
	}
	return files, nil
}
