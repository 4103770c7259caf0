package cluster

import (
	"testing"
	"time"
)

// TestPauseAfter wants the pauses of a part that dies early each time: they grow, and are
// bounded however often that is.
func TestPauseAfter(t *testing.T) {
	for deaths, want := range map[int]time.Duration{
		1: firstPause, 2: 2 * firstPause, 6: 32 * firstPause, 7: maxPause, manyDeaths: maxPause,
		manyDeaths + 1: 2 * maxPause, manyDeaths + 3: 8 * maxPause, manyDeaths + 4: longestPause, 1e9: longestPause,
	} {
		if got := pauseAfter(deaths); got != want {
			t.Errorf("%v after %d deaths, expected %v", got, deaths, want)
		}
	}
}
