//go:build amd64 && !race

package ring

// needsFence: a store that releases may be passed by a later load of another word.
const needsFence = true

// storeRelease stores after all that was stored before it. A MOV, which is all that
// takes on amd64; Go's atomic store is an XCHG, which also waits until all of them
// have reached the cache: for a record that the other core has just read, that is as
// long as everything else together.
//
//go:noescape
func storeRelease(addr *uint64, v uint64)

// fullFence waits until all that was stored is seen by all.
func fullFence()
