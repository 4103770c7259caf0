package local

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/ipc"
)

// ownStart returns the startTime of this process. It reads the file once, which takes
// longer than the rest of a greeting where many processes run.
var ownStart = sync.OnceValue(func() uint64 { return startTime(os.Getpid()) })

// startTime is when a process started, in clock ticks after boot, 0 when that cannot be
// told: field 22 of its stat, counted from behind the name, which may hold anything.
func startTime(pid int) uint64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, after, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	fields := strings.Fields(after)
	if !ok || len(fields) < 20 {
		return 0
	}
	v, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// credentials returns the peer's process and user, from the kernel.
func credentials(sock *net.UnixConn) (*unix.Ucred, error) {
	var cred *unix.Ucred
	err := ipc.WithFD(sock, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	return cred, err
}

// allowed returns an error unless a process with these credentials may be at the other
// end. Root may serve every user.
func allowed(cred *unix.Ucred, allowGID int, serves bool) error {
	switch {
	case int(cred.Uid) == os.Getuid(), serves && cred.Uid == 0:
		return nil
	case allowGID != 0 && int(cred.Gid) == allowGID:
		return nil
	}
	return fmt.Errorf("%w: user %d (group %d), expected user %d", ipc.ErrRefused, cred.Uid, cred.Gid, os.Getuid())
}
