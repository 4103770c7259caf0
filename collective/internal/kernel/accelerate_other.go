//go:build !amd64

package kernel

import "github.com/ringside-go/ringside/collective/element"

// accelerated does nothing here and says so.
func (s Set) accelerated(element.Reduction, conversion, float64, [][]byte, [][]byte) int { return 0 }

// copyLarge is never called here: the only level is Go.
func (s Set) copyLarge(dst, src []byte) { copy(dst, src) }
