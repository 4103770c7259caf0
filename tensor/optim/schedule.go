package optim

import "math"

// Cosine returns a schedule of the learning rate. It rises linearly over the first warmup
// steps to peak and falls along half a cosine to last at step steps, where it stays.
// Steps count from 0; the first value is peak/warmup, not 0.
func Cosine(peak, last float64, warmup, steps int) func(step int) float64 {
	return func(step int) float64 {
		switch {
		case step < warmup:
			return peak * float64(step+1) / float64(warmup)
		case step >= steps:
			return last
		}
		done := float64(step-warmup) / float64(steps-warmup)
		return last + (peak-last)*(1+math.Cos(math.Pi*done))/2
	}
}
