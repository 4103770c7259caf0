//go:build !amd64 || race

package onehost

import "sync/atomic"

// storeRelease stores v after everything that was stored before it.
func storeRelease(addr *uint64, v uint64) { atomic.StoreUint64(addr, v) }

// await looks up to n times whether *addr is want, and reports whether it was.
func await(addr *uint64, want uint64, n int) bool {
	for range n {
		if atomic.LoadUint64(addr) == want {
			return true
		}
	}
	return false
}

// give stores word and then mark in mine.
func give(mine *half, mark, word uint64) {
	mine.word = word
	storeRelease(&mine.mark, mark)
}

// take looks up to n times whether the mark in theirs is mark. It returns the word in
// theirs, and whether the mark was the same.
func take(theirs *half, mark uint64, n, _ int) (uint64, bool) {
	if !await(&theirs.mark, mark, n) {
		return 0, false
	}
	return theirs.word, true
}

// claim does nothing: it is a hint to the cache.
func claim(*half) {}

// fetch does nothing: it is a hint to the cache.
func fetch([]byte) {}

// demote does nothing: it is a hint to the cache.
func demote([]byte) {}
