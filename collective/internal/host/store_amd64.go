//go:build amd64 && !race

package host

// storeRelease stores v after all that was stored before it: a MOV. Go's atomic store is an XCHG, which also waits until
// all of that has reached the cache; the lines written before it were last read by the other cores, so that is as long as
// the rest of a small call.
//
//go:noescape
func storeRelease(addr *uint64, v uint64)

// await looks up to n > 0 times whether *addr is want, with a PAUSE between, and says whether it was; so few that a goroutine need not be
// stopped meanwhile.
//
//go:noescape
func await(addr *uint64, want uint64, n int) bool

// trade stores word and mark in mine, one right behind the other, and looks up to n > 0 times, with a PAUSE between, whether the mark in
// theirs is the same. It returns the word beside that, and whether it was.
//
//go:noescape
func trade(mine, theirs *half, mark, word uint64, n int) (uint64, bool)

// claim has the line of h fetched to be written to, and does not wait for it.
//
//go:noescape
func claim(h *half)

// fetch has the cache lines of b, which is not empty, fetched to be written to, and waits for none.
//
//go:noescape
func fetch(b []byte)

// demote has the cache lines of b, which is not empty, put where all cores find them, by a processor that knows how to; for others it does nothing.
//
//go:noescape
func demote(b []byte)
