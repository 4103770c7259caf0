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

// The first fields of a stat that are used here, from the third of /proc/PID/stat on.
const (
	statState = 0
	statStart = 19
)

// statOf returns the fields of a stat of a process or a thread from the third on: those
// behind the name, which may hold anything. It is nil where they cannot be read.
func statOf(dir string) []string {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return nil
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) <= statStart {
		return nil
	}
	return fields
}

// procOf is where the kernel tells of a process.
func procOf(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// startTime is when a process started, in clock ticks after boot, 0 when that cannot be
// told.
func startTime(pid int) uint64 {
	fields := statOf(procOf(pid))
	if fields == nil {
		return 0
	}
	v, err := strconv.ParseUint(fields[statStart], 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// Standstill says that a peer of this host stands still, and what to do: a signal has
// stopped its process, or a debugger holds it. It is empty for a peer that goes on, and
// where that cannot be told: of another host, or of processes that this one cannot see.
func Standstill(p ipc.Peer) string {
	if p.Addr != "" || p.PID <= 0 {
		return ""
	}
	fields := statOf(procOf(p.PID))
	if fields == nil || p.Start != 0 && fields[statStart] != strconv.FormatUint(p.Start, 10) {
		return ""
	}
	switch fields[statState] {
	case "T":
		return fmt.Sprintf("process %d is stopped by a signal: kill -CONT %d lets it go on", p.PID, p.PID)
	case "t":
		return fmt.Sprintf("process %d is held by a debugger: let it go on there", p.PID)
	}
	return ""
}

// runs reports whether a thread of another process has a processor or waits for one.
func runs(pid int) bool {
	if pid <= 0 || pid == os.Getpid() {
		return false
	}
	tasks, _ := os.ReadDir(procOf(pid) + "/task")
	for _, t := range tasks {
		if fields := statOf(procOf(pid) + "/task/" + t.Name()); fields != nil && fields[statState] == "R" {
			return true
		}
	}
	return false
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
