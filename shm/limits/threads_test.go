package limits

import (
	"math"
	"testing"
)

func TestThreads(t *testing.T) {
	const (
		group   = "0::/app/w"
		ancient = "35 31 0:32 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids"
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
		"version 1": {map[string]string{
			"proc/self/cgroup": "3:cpu:/x\n8:pids:/w\n0::/", "proc/self/mountinfo": ancient,
			"sys/fs/cgroup/pids/w/pids.max": "40", "sys/fs/cgroup/pids/w/pids.current": "10",
		}, 30},
	} {
		if got := tree(t, c.files).Threads(); got != c.left {
			t.Errorf("%s: %d threads are left, expected %d", name, got, c.left)
		}
	}
}
