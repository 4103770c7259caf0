package limits

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Files is how many descriptors this process may have open, and how many of them are kept
// for what must go on when there are no others: greeting peers to tell them so, workers
// that come back, descriptors that are on their way.
//
// The kernel gives the lowest number that is free. So a descriptor says by its number how
// many are open at least, and nothing needs to be counted.
type Files struct {
	Max  int // descriptors; the largest number without a bound
	Kept int // of these
}

// mostFilesKept bounds Files.Kept.
const mostFilesKept = 256

// OpenFiles returns the present limit (ulimit -n).
func OpenFiles() Files {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil || l.Cur > math.MaxInt32 {
		l.Cur = math.MaxInt32
	}
	return Files{Max: int(l.Cur), Kept: int(min(l.Cur/4, mostFilesKept))}
}

// Low reports whether fd is one of those that are kept: all others were open when it was
// opened.
func (f Files) Low(fd int) bool { return fd >= f.Max-f.Kept }

// Scarce reports whether half of those that are kept were open as well.
func (f Files) Scarce(fd int) bool { return fd >= f.Max-f.Kept/2 }

// String returns "256 descriptors, raise it by ulimit -n 1024, or LimitNOFILE=1024 in a
// service".
func (f Files) String() string {
	return fmt.Sprintf("%d descriptors, raise it by ulimit -n %d, or LimitNOFILE=%[2]d in a service", f.Max, 4*f.Max)
}
