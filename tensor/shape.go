package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxRank is the largest number of dims. The bound keeps the arrays of loops over dims on
// the stack.
const MaxRank = 8

// Shape is the size of each dim, outermost first; the empty shape is a scalar of one
// element. A Shape never changes, so values share it.
type Shape []int

// Elems returns the number of elements, 1 for a scalar.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Equal reports whether both shapes have the same dims.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// String returns the shape as [2 3 4].
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}

// Check returns an error for a shape that no tensor can have: too many dims, a negative
// size, or so many elements that an int doesn't hold their bytes in the widest dtype.
func (s Shape) Check() error {
	if len(s) > MaxRank {
		return fmt.Errorf("%w: %v has %d dims, at most %d", ErrShape, s, len(s), MaxRank)
	}
	n := F64.Size()
	for _, x := range s {
		if x < 0 {
			return fmt.Errorf("%w: %v has a negative dim", ErrShape, s)
		}
		high, low := bits.Mul64(uint64(n), uint64(max(x, 1)))
		if high > 0 || low > math.MaxInt64 {
			return fmt.Errorf("%w: %v is too large: expected less than 1<<60 elements, a dim of 0 counted as 1", ErrShape, s)
		}
		n = int(low)
	}
	return nil
}

// Strides returns the distances, in elements, between neighbours along each dim of a
// contiguous (row-major) tensor.
func (s Shape) Strides() []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= s[i]
	}
	return st
}

// Broadcast returns the common shape of a and b by NumPy's rule. Dims are compared from
// the last: equal dims stay, and a dim that is 1 or missing is repeated.
func Broadcast(a, b Shape) (Shape, error) { return broadcast(nil, a, b) }

// broadcast is Broadcast. It puts a result that is neither a nor b into the memory of
// out, which is empty, if that suffices.
func broadcast(out, a, b Shape) (Shape, error) {
	if a.Equal(b) || len(b) == 0 {
		return a, nil
	}
	if len(a) == 0 {
		return b, nil
	}
	n := max(len(a), len(b))
	out = slices.Grow(out, n)[:n]
	for i := 1; i <= n; i++ {
		x, y := 1, 1
		if i <= len(a) {
			x = a[len(a)-i]
		}
		if i <= len(b) {
			y = b[len(b)-i]
		}
		switch {
		case x == y || y == 1:
			out[n-i] = x
		case x == 1:
			out[n-i] = y
		default:
			return nil, fmt.Errorf("%w: %v and %v don't broadcast: dim %d from the end is %d and %d", ErrShape, a, b, i, x, y)
		}
	}
	return out, nil
}

// axis returns dim, which may count from the end, as 0..rank-1.
func axis(dim, rank int) (int, error) {
	d := dim
	if d < 0 {
		d += rank
	}
	if rank == 0 {
		return 0, fmt.Errorf("%w: dim %d of a scalar, which has no dims", ErrShape, dim)
	}
	if d < 0 || d >= rank {
		return 0, fmt.Errorf("%w: dim %d of a tensor with %d dims; expected %d to %d", ErrShape, dim, rank, -rank, rank-1)
	}
	return d, nil
}
