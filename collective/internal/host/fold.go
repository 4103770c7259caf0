package host

import (
	"slices"

	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/plan"
)

// foldTile is the elements of which a bracketed fold makes all partial results before it
// combines them. The results of a few groups fit a level 1 cache.
const foldTile = 1 << 10

// folder folds the buffers of all ranks in the order of plan.Fold.
type folder struct {
	set    kernel.Set
	groups plan.Fold // nil: from the left, in one pass
	parts  [][]byte  // results of a tile, by group
	tiles  struct{ dsts, srcs, parts [][]byte }
}

// newFolder returns a folder for n ranks.
func newFolder(set kernel.Set, fold plan.Fold, n int) folder {
	f := folder{set: set}
	if fold.Plain() {
		return f
	}
	f.groups = slices.Clone(fold)
	f.parts = make([][]byte, len(fold))
	for i := range f.parts {
		f.parts[i] = make([]byte, foldTile*8)
	}
	f.tiles.parts = make([][]byte, len(fold))
	f.tiles.dsts, f.tiles.srcs = make([][]byte, n), make([][]byte, n)
	return f
}

// fold stores the reduction of srcs, which are those of all ranks, in every dst. A dst
// may be one of the srcs.
func (f *folder) fold(call *plan.Call, dsts, srcs [][]byte) {
	if f.groups == nil {
		f.set.Reduce(call.Op, call.DType, call.Scale, dsts, srcs)
		return
	}
	unit, wide := call.DType.Size(), call.DType.Wide()
	tile := foldTile * unit
	for lo := 0; lo < len(srcs[0]); lo += tile {
		hi := min(lo+tile, len(srcs[0]))
		t := &f.tiles
		for i, s := range srcs {
			t.srcs[i] = s[lo:hi]
		}
		for i, d := range dsts {
			t.dsts[i] = d[lo:hi]
		}
		first := 0
		for i, size := range f.groups {
			t.parts[i] = f.parts[i][:(hi-lo)/unit*wide.Size()]
			group, part := t.srcs[first:first+size], t.parts[i:i+1]
			first += size
			if wide != call.DType {
				f.set.ReduceWiden(call.Op, call.DType, 1, part, group)
			} else {
				f.set.Reduce(call.Op, call.DType, 1, part, group)
			}
		}
		if wide != call.DType {
			f.set.ReduceNarrow(call.Op, call.DType, call.Scale, t.dsts[:len(dsts)], t.parts)
		} else {
			f.set.Reduce(call.Op, call.DType, call.Scale, t.dsts[:len(dsts)], t.parts)
		}
	}
}

// pair is fold of the few bytes of two ranks. It reports false, having done nothing, if
// there is no kernel for them.
func (f *folder) pair(call *plan.Call, dst, x, y []byte) bool {
	return f.groups == nil && f.set.Pair(call.Op, call.DType, call.Scale, dst, x, y)
}
