package limits

import (
	"fmt"
	"strconv"
	"strings"
)

// begins is how much address space a process of this module has when it begins, in bytes.
// Most of it is reserved and never memory: the Go runtime's tables of all pages, and a
// heap of the C library for each thread. Where a limit leaves less, both go on with less
// of it, so what a process has does not say what it needs.
const begins = 1792 << 20

// Child returns an error if a process of this module that this process starts has less
// than least bytes of address space left when it has begun: limits are inherited. The Go
// runtime may end such a process before it can say why.
func (m Machine) Child(least int64) error {
	text := m.text("proc/self/limits")
	limit, bounded := field(strings.ReplaceAll(text, addressSpace, "limit"), "limit")
	if bounded && limit < begins+least {
		return fmt.Errorf("too little address space: a process may have %d MiB, expected %d: raise it by ulimit -v %d, or LimitAS=%[3]dK in a service",
			limit>>20, (begins+least)>>20, (begins+least)>>10)
	}
	return nil
}

// addressSpace is what /proc/self/limits calls the limit of address space.
const addressSpace = "Max address space"

// Space returns an error if the limits of this process leave it less address space or
// less memory of its own than these, in bytes. The Go runtime and the C library end a
// process that can map no more, so a program looks when it begins.
func (m Machine) Space(address, own int64) error {
	status, text := m.text("proc/self/status"), m.text("proc/self/limits")
	for _, l := range []struct {
		name, used string // in the files
		what, unit string
		least      int64
		begins     int64 // the limit is raised to this and least more, or further
	}{
		{addressSpace, "VmSize:", "too little address space", "ulimit -v %d, or LimitAS=%dK in a service", address, begins},
		{"Max data size", "VmData:", "too little memory of its own", "ulimit -d %d, or LimitDATA=%dK in a service", own, 0},
	} {
		limit, bounded := field(strings.ReplaceAll(text, l.name, "limit"), "limit")
		used, known := field(status, l.used)
		if free := limit - used<<10; bounded && known && free < l.least {
			raise := (max(limit+l.least-free, l.begins+l.least) + 1<<10 - 1) >> 10
			return fmt.Errorf("%s: this process may have %d MiB, of which %d are left, expected %d: raise it by %s",
				l.what, limit>>20, max(free, 0)>>20, l.least>>20, fmt.Sprintf(l.unit, raise, raise))
		}
	}
	return nil
}

// Mappings says how many mappings this process has, and how to have more, if it has
// nearly all that it may have; else it is empty.
func (m Machine) Mappings() string {
	most, err := strconv.Atoi(m.text("proc/sys/vm/max_map_count"))
	if n := strings.Count(m.text("proc/self/maps"), "\n") + 1; err == nil && n >= most-most/100 {
		return fmt.Sprintf("this process has %d mappings, and may have %d: raise it by sysctl vm.max_map_count=%d", n, most, 2*most)
	}
	return ""
}
