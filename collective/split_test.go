package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			// Rank 1 stays out; the others are numbered backwards.
			color := 7
			if g.Rank() == 1 {
				color = -1
			}
			s, err := g.Split(ctx, color, -g.Rank())
			if err != nil {
				return err
			}
			if g.Rank() == 1 {
				if s != nil {
					return fmt.Errorf("a group %v for who wanted none", s)
				}
				return g.Barrier(ctx)
			}
			defer s.Close()
			got := make([]int32, 3)
			if err := AllGather(ctx, s, got, []int32{int32(g.Rank())}); err != nil {
				return err
			}
			if !slices.Equal(got, []int32{3, 2, 0}) {
				return fmt.Errorf("ranks %v", got)
			}
			return g.Barrier(ctx)
		})
	})
}

// TestSplitMismatch: one rank makes another call, and the others' errors say what they were in.
func TestSplitMismatch(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		for r, err := range each(groups, func(g *Group) error {
			if g.Rank() == 3 {
				return g.Barrier(ctx)
			}
			s, err := g.Split(ctx, 0, 0)
			if s != nil {
				t.Errorf("rank %d has %v", g.Rank(), s)
			}
			return err
		}) {
			// At fault is either of the two that met; the text has both calls.
			if asError(t, r, err); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "barrier #1") {
				t.Errorf("rank %d: %v", r, err)
			}
			if r != 3 && !strings.HasPrefix(err.Error(), "split by color: all-gather #") {
				t.Errorf("rank %d: %v", r, err)
			}
		}
	})
}

// TestInterleaved: two groups with ranks in common, used from two goroutines at once and in different orders.
func TestInterleaved(t *testing.T) {
	onEach(t, nil, func(t *testing.T, groups []*Group) {
		ctx := hangGuard(t)
		all(t, groups, func(g *Group) error {
			a, err := g.Sub(ctx, 0, 1, 2)
			if err != nil {
				return err
			}
			b, err := g.Sub(ctx, 3, 2, 1)
			if err != nil {
				return err
			}
			done := make(chan error, 2)
			for i, s := range []*Group{a, b} {
				go func() {
					if s == nil {
						done <- nil
						return
					}
					for n := range 200 {
						x := slices.Repeat([]float64{float64(n + i)}, 1+n*17)
						if err := AllReduce(ctx, s, x, x, Sum); err != nil || x[n] != float64(3*(n+i)) {
							done <- fmt.Errorf("%v: call %d gave %v: %w", s, n, x[n], err)
							return
						}
					}
					done <- s.Close()
				}()
			}
			for range 2 {
				if err := <-done; err != nil {
					return err
				}
			}
			return g.Barrier(ctx)
		})
	})
}
