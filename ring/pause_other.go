//go:build !amd64 && !arm64

package ring

// pause passes a little time n times over. Not inlined, so that it is not
// optimised away.
//
//go:noinline
func pause(n uint32) {
	for i := uint32(0); i < 16*n; i++ {
	}
}
