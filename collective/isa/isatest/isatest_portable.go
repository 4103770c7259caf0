//go:build !amd64 && !arm64

package isatest

import (
	"testing"

	"github.com/ringside-go/ringside/collective/isa"
)

// Levels returns the levels that every machine of the kind runs.
func Levels(testing.TB) []isa.Level { return []isa.Level{isa.Go} }

func brainFloat(testing.TB) bool { return false }

func lists(testing.TB, ...string) bool { return false }
