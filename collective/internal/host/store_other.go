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

// trade stores word, then mark, in mine and looks up to n times whether the mark in theirs is the same. It returns the word beside that,
// and whether it was.
func trade(mine, theirs *half, mark, word uint64, n int) (uint64, bool) {
	mine.word = word
	storeRelease(&mine.mark, mark)
	if !await(&theirs.mark, mark, n) {
		return 0, false
	}
	return theirs.word, true
}

// claim does nothing: what it says, that h is written to soon, changes no result.
func claim(*half) {}

// fetch does nothing: what it says, that b is written to soon, changes no result.
func fetch([]byte) {}

// demote does nothing: what it says, that another core reads b soon, changes no result.
func demote([]byte) {}
