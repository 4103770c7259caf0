package limits

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Threads is how many processes and threads this process may still start, by the tightest
// bound. The Go runtime ends a process that can start no thread, so a caller that is
// about to start many looks first.
type Threads struct {
	Free int    // at least 0; the largest number without a bound
	Max  int    // of the bound; 0 without one
	By   string // the bound: "the limit of this user (ulimit -u)", "the cgroup /app"

	raise string // how, with the new bound for %d
}

// Words for the two kinds of bounds.
const (
	byUser     = "the limit of this user (ulimit -u)"
	raiseUser  = "ulimit -u %d, or LimitNPROC=%[1]d in a service"
	raiseGroup = "pids.max of the cgroup %d, which is TasksMax=%[1]d in a service, or --pids-limit %[1]d of a container"
)

// Threads returns the least that any bound leaves. If that is more than enough, it may be
// less than the bound leaves, as the user's own threads, of all processes of the machine,
// are then not told apart from others'. Others that count against the same bound start
// threads meanwhile. Processes of this user that are not visible here, as those of other
// containers, are not counted.
func (m Machine) Threads(enough int) Threads {
	t := Threads{Free: math.MaxInt, By: "nothing"}
	bound := func(limit, used int64, by, raise string) {
		if free := int(max(limit-used, 0)); free < t.Free {
			t = Threads{free, int(limit), by, raise}
		}
	}
	for _, g := range m.groups(tasks) {
		limit, bounded := m.number(g, "pids.max")
		used, ok := m.number(g, "pids.current")
		if bounded && ok {
			bound(limit, used, "the cgroup "+g.name, raiseGroup)
		}
	}
	if limit, ok := m.processes(); ok {
		if used := m.all(); limit-used >= int64(enough) {
			bound(limit, used, byUser, raiseUser)
		} else {
			bound(limit, m.ofUser(), byUser, raiseUser)
		}
	}
	return t
}

// String returns "3 of 40 processes and threads are left by the limit of this user
// (ulimit -u)".
func (t Threads) String() string {
	if t.Max == 0 {
		return "no bound of processes and threads is known"
	}
	return fmt.Sprintf("%d of %d processes and threads are left by %s", t.Free, t.Max, t.By)
}

// Raise says how to have n free: "raise it by ulimit -u 80, or LimitNPROC=80 in a
// service". If so many are free, it says how to have n more: a start failed although they
// seem to be there, because others have ended since, or count and are not visible here.
func (t Threads) Raise(n int) string {
	if t.Max == 0 {
		return "see /proc/sys/kernel/threads-max and pid_max"
	}
	if n > t.Free {
		n -= t.Free
	}
	return "raise it by " + fmt.Sprintf(t.raise, t.Max+n)
}

// someThreads is what Started advises to have free, enough for some processes of this
// module.
const someThreads = 100

// Started adds to an error of starting a process the bound that was met, if one was.
func Started(err error) error {
	if !errors.Is(err, unix.EAGAIN) {
		return err
	}
	t := Machine{}.Threads(math.MaxInt)
	return fmt.Errorf("%w: %v: %s", err, t, t.Raise(someThreads))
}

// processes returns the limit of processes and threads of this user; false if none holds,
// as for root and for processes with the capability to exceed it. In a user namespace
// where 0 is another user outside, neither helps.
func (m Machine) processes() (int64, bool) {
	const resource, admin = 1 << unix.CAP_SYS_RESOURCE, 1 << unix.CAP_SYS_ADMIN
	status := m.text("proc/self/status")
	able, err := strconv.ParseUint(after(status, "CapEff:"), 16, 64)
	if err != nil {
		return 0, false
	}
	outside, mapped := field(m.text("proc/self/uid_map"), "0")
	if own := mapped && outside != 0; !own && (able&(resource|admin) != 0 || after(status, "Uid:") == "0") {
		return 0, false
	}
	text := m.text("proc/self/limits")
	return field(strings.ReplaceAll(text, "Max processes", "Max-processes"), "Max-processes")
}

// all returns how many threads the machine has, from "0.20 0.18 0.12 1/300 11206"; the
// largest number if it is not known.
func (m Machine) all() int64 {
	text := m.text("proc/loadavg")
	if f := strings.Fields(text); len(f) > 3 {
		_, total, _ := strings.Cut(f[3], "/")
		if n, err := strconv.ParseInt(total, 10, 64); err == nil {
			return n
		}
	}
	return math.MaxInt64
}

// ofUser returns how many threads processes of this user have: those with its real user
// id. The folder of a process belongs to its effective user, or to root if it may not be
// traced. In a container, root may be a user without a name there, as /proc itself shows.
// The processes in folders of other users are not read, which takes several times as long
// as asking whose a folder is.
func (m Machine) ofUser() (n int64) {
	own := m.text("proc/self/status")
	uid := after(own, "Uid:")
	folder := path.Join("/", m.Root, "proc")
	users := []uint32{0, uint32(os.Getuid()), uint32(os.Geteuid())}
	var owner unix.Stat_t
	if unix.Stat(folder, &owner) == nil {
		users = append(users, owner.Uid)
	}
	d, err := os.Open(folder)
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if unix.Stat(path.Join(folder, name), &owner) != nil || !slices.Contains(users, owner.Uid) {
			continue
		}
		if status := m.text(path.Join("proc", name, "status")); after(status, "Uid:") == uid {
			threads, _ := field(status, "Threads:")
			n += threads
		}
	}
	return n
}
