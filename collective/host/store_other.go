//go:build !amd64 || race

package host

import "sync/atomic"

// storeRelease stores v after all that was stored before it.
func storeRelease(addr *uint64, v uint64) { atomic.StoreUint64(addr, v) }

// await looks up to n times whether *addr is want, and says whether it was.
func await(addr *uint64, want uint64, n int) bool {
	for range n {
		if atomic.LoadUint64(addr) == want {
			return true
		}
	}
	return false
}
