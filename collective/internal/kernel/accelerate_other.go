//go:build !amd64

package kernel

import "github.com/ringside-go/ringside/collective/element"

// accelerated returns 0: there is no assembly here.
func (s Set) accelerated(element.Reduction, conversion, float64, [][]byte, [][]byte) int { return 0 }

// copyLarge is never called here: the only level is Go.
func (s Set) copyLarge(dst, src []byte) { copy(dst, src) }
