//go:build amd64 || arm64

package ring

// pause tells the core n times that this is a spin loop: PAUSE on amd64, YIELD on
// arm64. n must be positive, and small: it cannot be preempted.
//
//go:noescape
func pause(n uint32)
