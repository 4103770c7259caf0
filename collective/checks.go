package collective

import (
	"fmt"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/plan"
)

// has returns ErrRank unless rank is one of the group's.
func (g *Group) has(rank int, what string) error {
	if rank < 0 || rank >= g.size {
		return fmt.Errorf("%w: %s %d, expected 0 to %d", ErrRank, what, rank, g.size-1)
	}
	return nil
}

// bytesOfCounts returns counts of elements in bytes, and their sum in elements.
func (g *Group) bytesOfCounts(counts []int, size int) (out []int, sum int, err error) {
	out = make([]int, len(counts))
	for i, n := range counts {
		if n < 0 || n > (1<<62)/size/max(len(counts), 1) {
			return nil, 0, fmt.Errorf("%w: %d elements of rank %d", ErrLength, n, i)
		}
		out[i] = n * size
		sum += n
	}
	if len(counts) != g.size {
		return nil, 0, fmt.Errorf("%w: %d counts, expected one for each of %d ranks", ErrLength, len(counts), g.size)
	}
	return out, sum, nil
}

// reduction fills in a call that folds count elements.
func reduction(g *Group, r *plan.Request, kind plan.Kind, op Op, dt element.DType, count int) error {
	fold, scale, err := reductionOf(op, dt, g.size)
	if err != nil {
		return err
	}
	c := &r.Call // field by field: a whole Call would be copied once more
	c.Kind, c.Op, c.DType, c.Count, c.Scale = kind, fold, dt, int64(count), scale
	return nil
}

// parts checks one and all, a rank's part and the whole of all ranks' parts, and puts the
// counts in the request. one may be its own place in all. counts nil: parts of one
// length.
func parts[T Element](g *Group, r *plan.Request, what string, one, all []T, counts []int) error {
	off, mine, whole := g.rank*len(one), len(one), g.size*len(one)
	size := dtypeOf[T]().Size()
	if counts != nil {
		var err error
		if r.Counts, whole, err = g.bytesOfCounts(counts, size); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		r.Call.Counts = plan.HashCounts(counts)
		off, mine = sum(counts[:g.rank]), counts[g.rank]
	}
	if len(one) != mine || len(all) != whole {
		return fmt.Errorf("%w: %s between %d elements of this rank, expected %d, and %d of all, expected %d",
			ErrLength, what, len(one), mine, len(all), whole)
	}
	a, b := bytesOf(one), bytesOf(all)
	if overlap(a, b) && !same(a, b[off*size:(off+mine)*size]) {
		return fmt.Errorf("%w: %s", ErrOverlap, what)
	}
	return nil
}

// rooted checks a gather or scatter: one is every rank's part, all is the root's buffer,
// which the other ranks do not use.
func rooted[T Element](g *Group, r *plan.Request, kind plan.Kind, one, all []T, counts []int, root int) error {
	if err := g.has(root, "root"); err != nil {
		return err
	}
	whole := len(one) * g.size
	if counts != nil {
		var err error
		if r.Counts, whole, err = g.bytesOfCounts(counts, dtypeOf[T]().Size()); err != nil {
			return fmt.Errorf("%v: %w", kind, err)
		}
		r.Call.Counts = plan.HashCounts(counts)
		if len(one) != counts[g.rank] {
			return fmt.Errorf("%w: %v of %d elements, counts say %d", ErrLength, kind, len(one), counts[g.rank])
		}
	}
	if g.rank == root {
		if err := parts(g, r, kind.String(), one, all, counts); err != nil {
			return err
		}
	}
	r.Peer = root
	r.Call.Kind, r.Call.DType, r.Call.Count, r.Call.Root = kind, dtypeOf[T](), int64(whole), int32(root)
	return nil
}
