//go:build race

package testsize

// Raced reports whether the tests are built with the race detector.
const Raced = true
