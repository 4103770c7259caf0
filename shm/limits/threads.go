package limits

import "math"

// Threads returns how many threads more control groups leave this process, at least 0.
// Processes of the groups share them. Without a bound that can be read it is the largest
// number. The Go runtime ends a process that can start no thread.
func (m Machine) Threads() int {
	least := int64(math.MaxInt)
	for _, g := range m.groups(tasks) {
		limit, bounded := m.number(g, "pids.max")
		used, ok := m.number(g, "pids.current")
		if bounded && ok {
			least = min(least, max(limit-used, 0))
		}
	}
	return int(least)
}
