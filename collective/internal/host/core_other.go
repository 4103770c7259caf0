//go:build !amd64

package host

// hasCoreNow is false: nothing quick says it here.
func hasCoreNow() bool { return false }

func coreNow() uint64 { return 0 }
