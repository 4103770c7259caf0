//go:build !amd64

package onehost

// hasCoreNow returns false: no instruction of this architecture is known to tell the
// core.
func hasCoreNow() bool { return false }

// coreNow returns 0.
func coreNow() uint64 { return 0 }
