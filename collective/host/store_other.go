//go:build !amd64 || race

package host

import "sync/atomic"

// storeRelease stores v after all that was stored before it.
func storeRelease(addr *uint64, v uint64) { atomic.StoreUint64(addr, v) }
