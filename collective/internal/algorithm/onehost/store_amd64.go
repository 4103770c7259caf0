//go:build amd64 && !race

package onehost

// storeRelease stores v after everything that was stored before it: a MOV. Go's atomic
// store is an XCHG, which also waits until the earlier stores have reached the cache.
//
//go:noescape
func storeRelease(addr *uint64, v uint64)

// await looks up to n > 0 times whether *addr is want, with a PAUSE between, and reports
// whether it was. n is so small that the goroutine need not be preempted meanwhile.
//
//go:noescape
func await(addr *uint64, want uint64, n int) bool

// give stores word and then mark in mine, without an instruction between them.
//
//go:noescape
func give(mine *half, mark, word uint64)

// take looks up to n > 0 times whether the mark in theirs is mark, with rest > 0 PAUSEs
// between looks. It returns the word in theirs, and whether the mark was the same.
//
//go:noescape
func take(theirs *half, mark uint64, n, rest int) (uint64, bool)

// claim begins to fetch the line of h for writing, and does not wait for it.
//
//go:noescape
func claim(h *half)

// fetch begins to fetch the cache lines of b, which is not empty, for writing, and does
// not wait for them.
//
//go:noescape
func fetch(b []byte)

// demote moves the cache lines of b, which is not empty, to a cache that all cores share.
// A processor without the instruction ignores it.
//
//go:noescape
func demote(b []byte)
