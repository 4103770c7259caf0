//go:build amd64 || arm64

package bench

// ticks is the cycle counter: the clock that the C floor has, a quarter of the cost of
// time.Now.
//
//go:noescape
func ticks() uint64
