package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
)

// Fold says how the terms of a Partial tensor are combined.
type Fold uint8

// The folds.
const (
	NoFold Fold = iota
	Sum
	Mean
	Max
	Min
	Prod
)

// String returns the name in lower case.
func (f Fold) String() string { return [...]string{"none", "sum", "mean", "max", "min", "prod"}[f] }

// op returns the fold as the reduction of a collective. A mean is a scaled sum.
func (f Fold) op() element.Reduction {
	return [...]element.Reduction{element.None, element.Sum, element.Sum, element.Max, element.Min, element.Prod}[f]
}

// folds reports whether tensors of the dtype can be folded so.
func (f Fold) folds(d tensor.DType) bool {
	return (d != tensor.Bool || f == Max || f == Min) && (f != Mean || d.IsFloat())
}

type kind uint8

const (
	replicated kind = iota
	sharded
	partial
)

// Placement says how a tensor lies along one dim of a mesh. The zero value is Replicate.
// Placements are compared with ==.
type Placement struct {
	kind kind
	dim  int
	fold Fold
}

// Replicate is the placement in which every rank has the whole tensor.
var Replicate = Placement{}

// Shard returns the placement in which every rank has a chunk of dim d.
func Shard(d int) Placement { return Placement{kind: sharded, dim: d} }

// Partial returns the placement in which every rank has a term of the tensor, which is
// the fold of all terms.
func Partial(f Fold) Placement { return Placement{kind: partial, fold: f} }

// Sharded reports whether p is Shard, and returns its dim.
func (p Placement) Sharded() (dim int, ok bool) { return p.dim, p.kind == sharded }

// Partial reports whether p is Partial, and returns its fold.
func (p Placement) Partial() (f Fold, ok bool) { return p.fold, p.kind == partial }

// String returns R, S(0) or P(sum).
func (p Placement) String() string {
	switch p.kind {
	case sharded:
		return fmt.Sprintf("S(%d)", p.dim)
	case partial:
		return fmt.Sprintf("P(%v)", p.fold)
	}
	return "R"
}

// Layout is a tensor's placement along each dim of a mesh, Replicate for dims that the
// mesh lacks. The zero value is Replicate everywhere. Layouts are compared with ==.
type Layout [MaxDims]Placement

// On returns the layout with these placements in the order of the mesh's dims, at most
// MaxDims.
func On(p ...Placement) Layout {
	var l Layout
	copy(l[:], p)
	return l
}

// Bits returns a layout without Partial as messages encode it, in 4 bits for each dim of
// a mesh: 0 for Replicate, 1+d for Shard(d).
func (l Layout) Bits() (b uint8) {
	for k, p := range l {
		if p.kind == sharded {
			b |= uint8(1+p.dim) << (4 * k)
		}
	}
	return b
}

// LayoutOf returns the layout with those Bits, or false if a tensor with that number of
// dims can't have it on m.
func (m Mesh) LayoutOf(bits uint8, dims int) (l Layout, ok bool) {
	for k := range l {
		switch d := int(bits>>(4*k)&15) - 1; {
		case d < 0:
		case k >= len(m) || d >= dims:
			return l, false
		default:
			l[k] = Shard(d)
		}
	}
	return l, true
}

// show returns the layout on a mesh of n dims, as [S(0) R].
func (l Layout) show(n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = l[i].String()
	}
	return "[" + strings.Join(s, " ") + "]"
}

// String returns the placements of all dims of a mesh.
func (l Layout) String() string { return l.show(MaxDims) }

// partial reports whether any dim is Partial.
func (l Layout) partial() bool {
	return slices.ContainsFunc(l[:], func(p Placement) bool { return p.kind == partial })
}

// check returns an error for a layout that a tensor of the dtype and shape can't have on
// m.
func (m Mesh) check(l Layout, d tensor.DType, s tensor.Shape) error {
	for k, p := range l {
		switch {
		case k >= len(m) && p != Replicate:
			return fmt.Errorf("%w: %v along dim %d of a mesh of %d dims", ErrPlacement, p, k, len(m))
		case p.kind == sharded && (p.dim < 0 || p.dim >= len(s)):
			return fmt.Errorf("%w: %v of a tensor %v%v, expected a dim of 0 to %d", ErrPlacement, p, d, s, len(s)-1)
		case p.kind == partial && (p.fold == NoFold || p.fold > Prod):
			return fmt.Errorf("%w: %v of a tensor %v%v", ErrPlacement, p, d, s)
		case p.kind == partial && !p.fold.folds(d):
			return fmt.Errorf("%w: %v of a tensor of %v", ErrPlacement, p, d)
		}
	}
	return nil
}

// normal returns l with Replicate along dims with one rank, where all placements are the
// same.
func (m Mesh) normal(l Layout) Layout {
	for k := range m {
		if m[k].Size == 1 {
			l[k] = Replicate
		}
	}
	return l
}

// Chunk returns the start and the length of the i-th of p chunks of n. The first n%p
// chunks are longer by one.
func Chunk(n, p, i int) (start, length int) {
	c := protocol.Part(n, 1, p, i)
	return c.Off, c.Len
}

// Local returns the start and the shape of rank's part of a tensor of shape s. The part
// of a Partial tensor is the whole.
func (m Mesh) Local(l Layout, s tensor.Shape, rank int) (start []int, local tensor.Shape) {
	start, local = make([]int, len(s)), append(tensor.Shape{}, s...)
	for k := range m {
		if d, ok := l[k].Sharded(); ok {
			off, n := Chunk(local[d], m[k].Size, m.Coord(rank, k))
			start[d] += off
			local[d] = n
		}
	}
	return start, local
}

// shape returns the shape that Local returns.
func (m Mesh) shape(l Layout, s tensor.Shape, rank int) tensor.Shape {
	_, local := m.Local(l, s, rank)
	return local
}
