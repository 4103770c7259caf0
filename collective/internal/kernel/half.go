package kernel

import "github.com/ringside-go/ringside/collective/element"

// halfToFloat widens the bits of a Float16, exactly.
func halfToFloat(h uint16) float32 { return element.Float16(h).Float32() }

// floatToHalf rounds to the nearest Float16, ties to even.
func floatToHalf(f float32) uint16 { return uint16(element.ToFloat16(f)) }

// brainToFloat widens the bits of a BFloat16, exactly.
func brainToFloat(h uint16) float32 { return element.BFloat16(h).Float32() }

// floatToBrain rounds to the nearest BFloat16, ties to even. Unlike element.ToBFloat16 it
// turns every NaN into the one quiet NaN 0x7fc0, as the vector kernels do.
func floatToBrain(f float32) uint16 {
	if f != f {
		return 0x7fc0
	}
	return uint16(element.ToBFloat16(f))
}
