package protocol

import "fmt"

// Fold is the bracketing of a reduction over the ranks 0..n-1: sizes of consecutive
// groups. Each group is reduced from the left, then their results are, from the left. [2
// 2] is (r0+r1)+(r2+r3); nil, [n] and n ones are all ((r0+r1)+r2)+r3.
type Fold []int

// Check returns ErrBadCall when f does not cover n ranks with groups that are not empty.
func (f Fold) Check(n int) error {
	if f == nil {
		return nil
	}
	total := 0
	for _, g := range f {
		if g < 1 || g > n {
			return fmt.Errorf("%w: fold %v has a group of %d, expected 1 to %d ranks", ErrBadCall, f, g, n)
		}
		total += g
	}
	if total != n {
		return fmt.Errorf("%w: fold %v has %d ranks, expected %d", ErrBadCall, f, total, n)
	}
	return nil
}

// Plain reports whether f is the fold from the left without brackets. So is one group of
// several ranks followed by groups of one: (r0+r1)+r2.
func (f Fold) Plain() bool {
	for i, g := range f {
		if i > 0 && g > 1 {
			return false
		}
	}
	return true
}
