package collective

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

// TestInitOver: ranks that exchange values in their own way make a group of that name,
// and a rank that none of them is makes none.
func TestInitOver(t *testing.T) {
	ctx := hangGuard(t)
	const n = 3
	board := newForum(n)
	groups := make([]*Group, n)
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			ranks := &Ranks{Rank: rank, Size: n, Name: "trio", Secret: []byte("of these three ranks"), Exchange: board.exchange(rank)}
			g, err := InitOver(ctx, ranks, nil)
			if groups[rank] = g; err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	if wg.Wait(); t.Failed() {
		return
	}
	// A program's first call is #1, whatever making the group took.
	all(t, groups, func(g *Group) error {
		if n := g.Stats().Calls; n != 0 {
			t.Errorf("%v: %d calls before the first", g, n)
		}
		x := []int64{int64(g.Rank())}
		if err := AllReduce(ctx, g, x, x, Sum); err != nil || x[0] != 3 || g.Name() != "trio" {
			t.Errorf("%v: %v, sum %d, expected 3 of trio", g, err, x[0])
		}
		return nil
	})
	errs := each(groups, func(g *Group) error {
		x := make([]int64, 1+g.Rank()/2)
		return AllReduce(ctx, g, x, x, Sum)
	})
	for r, err := range errs {
		if e := asError(t, r, err); !errors.Is(err, ErrMismatch) || !strings.HasPrefix(e.Call, "all-reduce #2 ") {
			t.Errorf("rank %d: %v, expected that of all-reduce #2", r, err)
		}
	}
	all(t, groups, func(g *Group) error { return g.Close() })
	if _, err := InitOver(context.Background(), &Ranks{Rank: 3, Size: 3}, nil); !errors.Is(err, ErrRank) {
		t.Errorf("rank 3 of 3: %v", err)
	}
}
