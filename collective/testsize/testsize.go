// Package testsize says how much of a long test runs.
package testsize

import "testing"

// Sampled reports whether a test takes a sample of its numbers or programs instead of
// all: with -short, and under the race detector, with which everything takes ten times
// as long and which has nothing to find in arithmetic. All are run by make purego. Tests
// of concurrent code ask for testing.Short or Raced alone.
func Sampled() bool { return Raced || testing.Short() }
