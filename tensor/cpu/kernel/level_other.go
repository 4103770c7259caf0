//go:build !amd64

package kernel

func supported(Level) bool { return false }

// accelerate is never called here: no level but Go is supported.
func accelerate(*Table, Level) {}
