package plan

import "fmt"

// What every communicator checks before it says anything to anybody. The errors are ErrBadCall.

// CheckCounts adds up the lengths. The error is ErrBadCall when one is negative, when there are not want of them, or when one is not a
// multiple of unit.
func CheckCounts(counts []int, want, unit int) (total int, err error) {
	if len(counts) != want {
		return 0, fmt.Errorf("%w: %d counts for %d ranks", ErrBadCall, len(counts), want)
	}
	for i, n := range counts {
		if n < 0 || n%unit != 0 {
			return 0, fmt.Errorf("%w: rank %d's part has %d bytes of elements of %d", ErrBadCall, i, n, unit)
		}
		if total += n; total < 0 {
			return 0, fmt.Errorf("%w: the counts add up to more than an int", ErrBadCall)
		}
	}
	return total, nil
}

// CheckLen says whether the buffer of that name has the length that the call gives it.
func CheckLen(name string, b []byte, want int) error {
	if len(b) != want {
		return fmt.Errorf("%w: %s has %d bytes, expected %d", ErrBadCall, name, len(b), want)
	}
	return nil
}

// CheckRoot says whether root is one of n ranks.
func CheckRoot(root, n int) error {
	if root < 0 || root >= n {
		return fmt.Errorf("%w: root %d of %d ranks", ErrBadCall, root, n)
	}
	return nil
}

// CheckPeer says whether p is another of n ranks than rank, which sends to it or receives from it.
func CheckPeer(p, rank, n int) error {
	if p < 0 || p >= n || p == rank {
		return fmt.Errorf("%w: rank %d of %d sends to or receives from rank %d", ErrBadCall, rank, n, p)
	}
	return nil
}
