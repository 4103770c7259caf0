package limits

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringside-go/ringside/shm/testneeds"
)

func TestThreads(t *testing.T) {
	const (
		group   = "0::/app/w"
		ancient = "35 31 0:32 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids"
	)
	const (
		user  = "Name:\tx\nUid:\t1000\t0\t0\t0\nThreads:\t5\nCapEff:\t0000000000000000\n"
		most  = "Limit Soft Hard Units\nMax processes             50                   90                   processes"
		other = "Uid:\t7\t7\t7\t7\nThreads:\t900\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		left  int
	}{
		"nothing can be read": {nil, math.MaxInt},
		"no bound": {map[string]string{
			"proc/self/cgroup": group, "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/app/w/pids.max": "max", "sys/fs/cgroup/app/w/pids.current": "7",
		}, math.MaxInt},
		"an ancestor has less": {map[string]string{
			"proc/self/cgroup": group, "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/app/w/pids.max": "100", "sys/fs/cgroup/app/w/pids.current": "7",
			"sys/fs/cgroup/app/pids.max": "60", "sys/fs/cgroup/app/pids.current": "32",
		}, 28},
		"more in use than allowed": {map[string]string{
			"proc/self/cgroup": group, "proc/self/mountinfo": mountV2,
			"sys/fs/cgroup/app/w/pids.max": "5", "sys/fs/cgroup/app/w/pids.current": "7",
		}, 0},
		"a user's limit": {map[string]string{
			"proc/self/status": user, "proc/self/limits": most, "proc/loadavg": "0.1 0.2 0.3 1/930 77",
			"proc/7/status": user, "proc/8/status": user, "proc/9/status": other,
		}, 40},
		"a user's limit that is far away": {map[string]string{
			"proc/self/status": user, "proc/self/limits": strings.Replace(most, "50  ", "90000", 1), "proc/loadavg": "0.1 0.2 0.3 1/930 77",
		}, 90000 - 930},
		"none holds for root": {map[string]string{
			"proc/self/status": strings.Replace(user, "1000", "0", 1), "proc/self/limits": most,
		}, math.MaxInt},
		"none holds for a process that may exceed it": {map[string]string{
			"proc/self/status": strings.Replace(user, "CapEff:\t0000000000000", "CapEff:\t0000000001000", 1), "proc/self/limits": most,
		}, math.MaxInt},
		"it holds for root of a user namespace": {map[string]string{
			"proc/self/status": strings.NewReplacer("1000", "0", "CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff").Replace(user), "proc/self/limits": most,
			"proc/self/uid_map": "         0      12345          1", "proc/7/status": strings.Replace(user, "1000", "0", 1),
		}, 45},
		"no limit": {map[string]string{
			"proc/self/status": user, "proc/self/limits": strings.Replace(most, "50", "unlimited", 1),
		}, math.MaxInt},
		"version 1": {map[string]string{
			"proc/self/cgroup": "3:cpu:/x\n8:pids:/w\n0::/", "proc/self/mountinfo": ancient,
			"sys/fs/cgroup/pids/w/pids.max": "40", "sys/fs/cgroup/pids/w/pids.current": "10",
		}, 30},
	} {
		if got := tree(t, c.files).Threads(8192); got.Free != c.left {
			t.Errorf("%s: %v, expected %d", name, got, c.left)
		}
	}
}

// TestEnoughThreads wants the user's threads counted only where those of the whole
// machine leave fewer than the caller asks for.
func TestEnoughThreads(t *testing.T) {
	const own = "Uid:\t1000\t0\t0\t0\nThreads:\t5\nCapEff:\t0\n"
	m := tree(t, map[string]string{
		"proc/self/status": own, "proc/self/limits": "Max processes  1000 2000 processes", "proc/loadavg": "0.1 0.2 0.3 1/930 77", "proc/7/status": own,
	})
	if near, far := m.Threads(71).Free, m.Threads(70).Free; near != 995 || far != 70 {
		t.Errorf("%d threads where 71 are enough, %d where 70 are; expected 995, of all but the user's 5, and 70, of all but the machine's 930", near, far)
	}
}

// TestOthersAreNotRead wants no process read whose folder belongs to another user.
func TestOthersAreNotRead(t *testing.T) {
	const own = "Uid:\t1000\t0\t0\t0\nThreads:\t5\nCapEff:\t0\n"
	m := tree(t, map[string]string{
		"proc/self/status": own, "proc/self/limits": "Max processes  50 90 processes", "proc/7/status": own, "proc/8/status": own,
	})
	if err := os.Chown(filepath.Join(m.Root, "proc/8"), 12345, -1); err != nil {
		testneeds.Root.Skipf(t, os.Getenv, "only root gives files away: %v", err)
	}
	if free := m.Threads(40).Free; free != 45 {
		t.Errorf("%d threads, expected 45: of the process in the folder of another user none count", free)
	}
}

// TestThreadsAreTold wants the bound and how to raise it in words.
func TestThreadsAreTold(t *testing.T) {
	m := tree(t, map[string]string{
		"proc/self/cgroup": "0::/w", "proc/self/mountinfo": mountV2,
		"sys/fs/cgroup/w/pids.max": "40", "sys/fs/cgroup/w/pids.current": "37",
	})
	const left, raise = "3 of 40 processes and threads are left by the cgroup /w",
		"raise it by pids.max of the cgroup 57, which is TasksMax=57 in a service, or --pids-limit 57 of a container"
	if got := m.Threads(20); got.String() != left || got.Raise(20) != raise {
		t.Errorf("%q, %q, expected %q, %q", got, got.Raise(20), left, raise)
	}
	if got := m.Threads(3).Raise(3); !strings.Contains(got, "TasksMax=43 ") {
		t.Errorf("%q to have as many as are free, expected three more than 40", got)
	}
	if got := (Threads{Free: math.MaxInt}); got.String() == "" || got.Raise(1) == "" {
		t.Errorf("%q, %q of no bound", got, got.Raise(1))
	}
	if err := errors.New("another"); Started(err) != err {
		t.Error("Started changed an error that no bound causes")
	}
	if err := Started(unix.EAGAIN); !errors.Is(err, unix.EAGAIN) || err == error(unix.EAGAIN) {
		t.Errorf("%v, expected EAGAIN with what bounds processes", err)
	}
}
