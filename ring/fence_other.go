//go:build !amd64 || race

package ring

import "sync/atomic"

// needsFence: Go's atomic loads do not pass its atomic stores, neither by its memory
// model nor as STLR and LDAR on arm64. The race detector has to see them too.
const needsFence = false

func storeRelease(addr *uint64, v uint64) { atomic.StoreUint64(addr, v) }

func fullFence() {}
