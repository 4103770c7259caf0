package kernel

// The generator is a module of its own, so that avo is no dependency of this one.
// TestGenerated runs it again and compares, on machines that have avo in their module
// cache.

//go:generate go run -C gen . ..
