package onehost

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ringside-go/ringside/collective/isa/isatest"
	"github.com/ringside-go/ringside/ipc/local"
)

// TestLessCrowded: the last rank on a core with two more than another has moves to the
// one with the fewest, and no other rank does.
func TestLessCrowded(t *testing.T) {
	for _, c := range []struct {
		on    []uint64 // by rank
		mover int      // -1: none
		to    uint64
	}{
		{[]uint64{0, 0, 1, 1}, -1, 0},
		{[]uint64{0, 0, 1}, -1, 0},
		{[]uint64{0, 1, 0, 0}, 3, 1},
		{[]uint64{7, 7, 7, 2}, 2, 2},
		{[]uint64{5, 5, 5, 5}, -1, 0}, // no rank is elsewhere: the kernel has its reasons
		{[]uint64{0, 0, 0, 0, 0, 1, 1, 9}, 4, 9},
		{[]uint64{0, 0, 0, 1, 1, 2}, 2, 2},
	} {
		for rank := range c.on {
			to, ok := lessCrowded(slices.Clone(c.on), rank)
			if ok != (rank == c.mover) || ok && to != c.to {
				t.Errorf("ranks on cores %v: rank %d moves to %d: %v; expected rank %d to %d", c.on, rank, to, ok, c.mover, c.to)
			}
		}
	}
}

// TestCoreNow: it is what the kernel takes for the number of the core.
func TestCoreNow(t *testing.T) {
	isatest.NeedFlag(t, "rdtscp", hasCoreNow())
	seen := map[uint64]bool{}
	for n := range local.Cores() {
		unbind, err := local.Bind(n)
		if err != nil {
			t.Fatal(err)
		}
		at := coreNow()
		if seen[at] {
			t.Errorf("two cores are %d", at)
		}
		if seen[at] = true; !local.Move(int(at)) {
			t.Errorf("core %d is none that this thread may run on", at)
		}
		unbind()
	}
}

// TestLooksForRanksOnOtherCores: a rank that waits looks only if no rank that it waits
// for is on its core, and not at first if the root of the last broadcast is.
func TestLooksForRanksOnOtherCores(t *testing.T) {
	cs := comms(t, pipes(t, 4), nil)
	c := cs[0]
	c.cores.mine, c.cores.looks = 1, 16
	c.epoch, c.hash, c.next = 1, 3, 1
	for p, core := range []uint64{1, 1, 2, 2} {
		atomic.StoreUint64(cs[p].self.core, core)
	}
	comes := func(first bool) bool {
		c.next = 1
		return c.here() || c.comes(first)
	}
	come := func(p int) { atomic.StoreUint64(c.peers[p].lines[1].mark, markOf(1, 3)) }
	if !c.beside() || comes(true) {
		t.Error("rank 1 is missing on this core, and is not seen there")
	}
	come(1)
	if c.beside() {
		t.Error("only ranks on the other core are missing, and one is taken for one of this core")
	}
	come(2)
	if comes(false) {
		t.Error("rank 3 has come without having")
	}
	c.window = window{epoch: 0, count: 1, root: 1}
	c.next = 3
	if !c.rootFirst() {
		t.Error("the root, on this core, does not go first")
	}
	if c.window.root = 2; c.rootFirst() {
		t.Error("a root on the other core goes first")
	}
	if c.window.root = 0; c.rootFirst() {
		t.Error("this rank, the root, lets itself go first")
	}
	come(3)
	if !comes(true) {
		t.Error("all have come, and that is not seen")
	}
	c.epoch = 0 // as it was
}
