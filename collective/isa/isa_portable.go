//go:build !amd64 && !arm64

package isa

// ofProcessor are the levels of the processor's kind but Go: none.
var ofProcessor [0]Level

// Best returns the highest level that this machine runs.
func Best() Level { return Go }
