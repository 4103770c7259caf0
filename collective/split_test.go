package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
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

// TestSplitMismatch: one rank makes another call, and the others' errors say what they
// were in.
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

// TestSplitDeath: a rank dies while the conns of a sub-group are made, after it has said
// that it wants to be in it and where it is. The others do not wait for it until the time
// is over, and name it by its number in the group that it was in.
func TestSplitDeath(t *testing.T) {
	for _, transport := range transports {
		for rounds := range 3 {
			t.Run(fmt.Sprintf("%s, after %d exchanges", transport, rounds), func(t *testing.T) {
				t.Parallel()
				groups, err := openWorld(transport, []int{0, 0, 1, 1}, &Options{Timeout: 25 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer closeAll(t, groups)
				testSplitDeath(t, groups, rounds)
			})
		}
	}
}

func testSplitDeath(t *testing.T, groups []*Group, rounds int) {
	ctx := hangGuard(t)
	errs := each(groups, func(g *Group) error {
		if g.Rank() != 1 {
			s, err := g.Split(ctx, 0, -g.Rank())
			if s != nil {
				t.Errorf("rank %d has %v", g.Rank(), s)
			}
			return err
		}
		// The steps of Split, until it dies in one of them.
		if err := AllGather(ctx, g, make([]int64, 8), []int64{0, -1}); err != nil {
			return err
		}
		// until they have all of that too; else they would hear of the death there
		for _, other := range groups {
			for other != g && other.children.Load() == 0 && ctx.Err() == nil {
				runtime.Gosched()
			}
		}
		round, ranks := 0, []int{3, 2, 1, 0}
		die := func() error {
			for _, tap := range g.control.taps {
				if tap != nil {
					tap.Conn.Close()
				}
			}
			return net.ErrClosed
		}
		o := g.options
		members, err := o.open(ctx, 2, 4, func(ctx context.Context, mine []byte) ([][]byte, error) {
			if round++; round > rounds {
				return nil, die()
			}
			return g.control.gather(ctx, ranks, fmt.Sprintf("world/1.0#%d", round), mine)
		})
		err = errors.Join(err, die())
		for _, m := range members {
			if m.Conn != nil {
				m.Conn.Close()
			}
		}
		return err
	})
	for r, err := range errs {
		if r == 1 {
			continue
		}
		if e := asError(t, r, err); e.Rank != 1 || !errors.Is(err, ErrPeerLost) || !strings.HasPrefix(err.Error(), "group world/1.0 of ranks [3 2 1 0]: rank 1 on host ") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestInterleaved: two groups with ranks in common, used from two goroutines at once and
// in different orders.
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
