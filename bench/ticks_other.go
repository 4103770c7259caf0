//go:build !amd64 && !arm64

package bench

import "time"

// ticks is the wall clock in ns, where there is no cycle counter that we know.
func ticks() uint64 { return uint64(time.Now().UnixNano()) }
