package bench

import "time"

// nsPerTick times the counter against the clock, for 10 ms.
func nsPerTick() float64 {
	start, first := time.Now(), ticks()
	for time.Since(start) < 10*time.Millisecond {
	}
	took, last := time.Since(start), ticks()
	return float64(took) / float64(last-first)
}
