package limits

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is how much memory this process can still get.
type Memory struct {
	Free int64  // bytes, at least 0
	By   string // the bound that says so: "the machine", "the cgroup /app"
}

// String returns "300 MiB free, by the cgroup /app".
func (b Memory) String() string { return fmt.Sprintf("%d MiB free, by %s", b.Free>>20, b.By) }

// mostKept bounds kept.
const mostKept = 256 << 20

// kept returns how much of a bound is never given out: a sixteenth. Code, stacks and
// heaps grow without asking, and a process that finds nothing left is killed.
func kept(limit int64) int64 { return min(limit/16, mostKept) }

// Memory returns the least that any bound leaves, less a reserve. It is an estimate: what
// other processes take a moment later is not in it. Without any bound that can be read,
// Free is the largest number.
func (m Machine) Memory() Memory {
	least := Memory{Free: math.MaxInt64, By: "nothing"}
	bound := func(limit, used int64, by string) {
		if free := limit - used - kept(limit); free < least.Free {
			least = Memory{max(free, 0), by}
		}
	}
	text := m.text("proc/meminfo")
	if free, ok := field(text, "MemAvailable:"); ok {
		total, _ := field(text, "MemTotal:")
		bound(total<<10, (total-free)<<10, "the machine")
	}
	for _, g := range m.groups(memory) {
		if limit, used, ok := m.memoryOf(g); ok {
			bound(limit, used, "the cgroup "+g.name)
		}
	}
	var as unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &as) == nil && as.Cur < math.MaxInt64 {
		text := m.text("proc/self/statm")
		pages, _, _ := strings.Cut(text, " ")
		n, _ := strconv.ParseInt(pages, 10, 64)
		bound(int64(as.Cur), n*int64(os.Getpagesize()), "the limit of address space (ulimit -v)")
	}
	return least
}

// memoryOf returns a group's bound and what of it is in use, in bytes; false without a
// bound. Pages of files that nothing used lately don't count: the kernel drops them.
func (m Machine) memoryOf(g group) (limit, used int64, ok bool) {
	files := [...]string{"memory.max", "memory.current", "inactive_file"}
	if g.version == 1 {
		files = [...]string{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	}
	if limit, ok = m.number(g, files[0]); !ok {
		return 0, 0, false
	}
	used, _ = m.number(g, files[1])
	stat := m.text(g.dir + "/memory.stat")
	idle, _ := field(stat, files[2])
	return limit, max(used-idle, 0), true
}

// field returns the number behind the first word of a line.
func field(text, name string) (int64, bool) {
	n, err := strconv.ParseInt(after(text, name), 10, 53)
	return n, err == nil
}

// after returns the second word of the line that begins with name; empty without one.
func after(text, name string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1]
		}
	}
	return ""
}

// Cores is how many cores this process may keep busy.
type Cores struct {
	N     int     // whole cores, at least 1
	Quota float64 // cores' worth of time that control groups allow; +Inf without a bound
	By    string  // the bound that says so
}

// Cores returns the least of the cores that this process may run on and of the time that
// its control groups allow. Part of a core is left out: a thread more than that would be
// stopped for a while in every period.
func (m Machine) Cores() Cores {
	c := Cores{N: cmp.Or(m.CPUs, runtime.NumCPU()), Quota: math.Inf(1), By: "the machine"}
	for _, g := range m.groups(cpu) {
		quota, period, ok := m.timeOf(g)
		if !ok || float64(quota)/float64(period) >= c.Quota {
			continue
		}
		c.Quota = float64(quota) / float64(period)
		if n := max(int(c.Quota), 1); n < c.N {
			c.N, c.By = n, "the cgroup "+g.name
		}
	}
	return c
}

// timeOf returns how many microseconds of all cores a group may use in a period; false
// without a bound.
func (m Machine) timeOf(g group) (quota, period int64, ok bool) {
	if g.version == 1 {
		quota, ok = m.number(g, "cpu.cfs_quota_us")
		period, _ = m.number(g, "cpu.cfs_period_us")
		return quota, period, ok && quota > 0 && period > 0
	}
	text := m.text(g.dir + "/cpu.max")
	first, second, _ := strings.Cut(text, " ")
	quota, err := strconv.ParseInt(first, 10, 64)
	period, _ = strconv.ParseInt(second, 10, 64)
	return quota, period, err == nil && quota > 0 && period > 0
}
