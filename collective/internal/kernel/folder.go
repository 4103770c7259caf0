package kernel

import (
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/collective/protocol"
)

// foldTile is the elements of which a bracketed fold makes all partial results before it
// combines them. The results of a few groups fit a level 1 cache.
const foldTile = 1 << 10

// Folder folds the buffers of all ranks in the order of a protocol.Fold. It keeps the
// partial results of groups in the wide type, so that f16 and bf16 are rounded once.
type Folder struct {
	Set
	Groups protocol.Fold // nil: by rank from the left, in one pass
	Order  []int         // the ranks in the order of the groups
	parts  [][]byte      // results of a tile, by group
	tiles  struct{ dsts, srcs, parts [][]byte }
}

// NewFolder returns a folder for n ranks, in the given order of them; nil: by number. The
// error is protocol.ErrBadCall.
func NewFolder(set Set, fold protocol.Fold, order []int, n int) (Folder, error) {
	f := Folder{Set: set, Order: slices.Clone(order)}
	for r := 0; order == nil && r < n; r++ {
		f.Order = append(f.Order, r)
	}
	for r := range n {
		if len(f.Order) != n || !slices.Contains(f.Order, r) {
			return f, fmt.Errorf("%w: order %v, expected each of %d ranks once", protocol.ErrBadCall, order, n)
		}
	}
	if err := fold.Check(n); err != nil || fold.Plain() && slices.IsSorted(f.Order) {
		return f, err
	}
	if fold == nil {
		fold = protocol.Fold{n}
	}
	f.Groups = slices.Clone(fold)
	f.parts = make([][]byte, len(fold))
	for i := range f.parts {
		f.parts[i] = make([]byte, foldTile*8)
	}
	f.tiles.parts = make([][]byte, len(fold))
	f.tiles.dsts, f.tiles.srcs = make([][]byte, n), make([][]byte, n)
	return f, nil
}

// Fold stores the reduction of srcs, which are those of all ranks, in every dst. A dst
// may be one of the srcs.
func (f *Folder) Fold(call *protocol.Call, dsts, srcs [][]byte) {
	if f.Groups == nil {
		f.Reduce(call.Op, call.DType, call.Scale, dsts, srcs)
		return
	}
	unit, wide := call.DType.Size(), call.DType.Wide()
	tile := foldTile * unit
	for lo := 0; lo < len(srcs[0]); lo += tile {
		hi := min(lo+tile, len(srcs[0]))
		t := &f.tiles
		for i, r := range f.Order {
			t.srcs[i] = srcs[r][lo:hi]
		}
		for i, d := range dsts {
			t.dsts[i] = d[lo:hi]
		}
		first := 0
		for i, size := range f.Groups {
			group := t.srcs[first : first+size]
			first += size
			if size == 1 && wide == call.DType {
				t.parts[i] = group[0]
				continue
			}
			t.parts[i] = f.parts[i][:(hi-lo)/unit*wide.Size()]
			f.fold(call.Op, conversion{call.DType, wide}, 1, t.parts[i:i+1], group)
		}
		f.fold(call.Op, conversion{wide, call.DType}, call.Scale, t.dsts[:len(dsts)], t.parts)
	}
}

// FoldPair is Fold of the few bytes of two ranks. It reports false, having done nothing,
// if there is no kernel for them.
func (f *Folder) FoldPair(call *protocol.Call, dst, x, y []byte) bool {
	return f.Groups == nil && f.Pair(call.Op, call.DType, call.Scale, dst, x, y)
}
