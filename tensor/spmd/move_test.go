package spmd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/spmd"
)

// ranks calls f as each of n ranks, with a session of its own.
func ranks(t *testing.T, n int, f func(ctx context.Context, g *collective.Group, s *tensor.Session) error) {
	t.Helper()
	groups, err := collective.Local(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			defer g.Close()
			s, err := cpu.NewSession(nil, nil)
			if err == nil {
				defer s.Close()
				err = f(ctx, g, s)
			}
			if err != nil {
				t.Errorf("rank %d: %v", g.Rank(), err)
			}
		})
	}
	wg.Wait()
}

// image returns the bytes and the form of a tensor.
func image(t *tensor.Tensor) (form string, b []byte, err error) {
	err = t.ViewBytes(func(x []byte) error {
		b = bytes.Clone(x)
		return nil
	})
	return fmt.Sprint(t.DType(), t.Shape()), b, err
}

// TestMoves: tensors of every element type arrive bit by bit, in rank order along dim 0.
func TestMoves(t *testing.T) {
	const n = 3
	for _, d := range tensor.DTypes() {
		t.Run(d.String(), func(t *testing.T) {
			// part returns what is rank r's: two rows of three elements.
			part := func(r int) []byte {
				b := make([]byte, 6*d.Size())
				for i := range b {
					b[i] = byte(i + 17*r)
					if d == tensor.Bool {
						b[i] = byte((i + r) % 2)
					}
				}
				return b
			}
			all := slices.Concat(part(0), part(1), part(2))
			ranks(t, n, func(ctx context.Context, g *collective.Group, s *tensor.Session) error {
				expect := func(what string, x *tensor.Tensor, err error, rows int, want []byte) error {
					if err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
					form, b, err := image(x)
					if wants := fmt.Sprint(d, tensor.Shape{rows, 3}); err != nil || form != wants || !bytes.Equal(b, want) {
						return fmt.Errorf("%s: %v %v %s, expected %v of %s", what, b, err, form, want, wants)
					}
					return nil
				}
				mine := tensor.FromBytes(s, d, part(g.Rank()), 2, 3)
				whole, err := spmd.AllGather(ctx, g, mine)
				errs := []error{expect("all-gather", whole, err, 6, all)}
				rooted, err := spmd.Gather(ctx, g, mine, 1)
				if g.Rank() == 1 {
					errs = append(errs, expect("gather", rooted, err, 6, all))
				} else if err != nil || rooted != nil {
					errs = append(errs, fmt.Errorf("gather: %v, %w, expected nothing on other ranks", rooted, err))
				}
				x := tensor.Zeros(s, d, 2, 3)
				errs = append(errs, spmd.Scatter(ctx, g, x, rooted, 1), expect("scatter", x, nil, 2, part(g.Rank())))
				errs = append(errs, spmd.Broadcast(ctx, g, 2, x, mine), expect("broadcast", x, nil, 2, part(2)))
				got, err := spmd.AllToAll(ctx, g, whole)
				errs = append(errs, expect("all-to-all", got, err, 6, slices.Concat(part(g.Rank()), part(g.Rank()), part(g.Rank()))))
				return errors.Join(errs...)
			})
		})
	}
}

// TestReduceScatter: each rank has its rows of the mean, and mistakes are refused while
// the group goes on.
func TestReduceScatter(t *testing.T) {
	ranks(t, 2, func(ctx context.Context, g *collective.Group, s *tensor.Session) error {
		r := float64(g.Rank())
		x := tensor.From(s, []float64{r, 1, 2, 3 * r}, 4)
		mine, err := spmd.ReduceScatter(ctx, g, collective.Mean, x)
		if err != nil {
			return err
		}
		got, err := tensor.Data[float64](mine)
		if want := [][]float64{{0.5, 1}, {2, 1.5}}[g.Rank()]; err != nil || !slices.Equal(got, want) || !mine.Shape().Equal(tensor.Shape{2}) {
			return fmt.Errorf("%v %v, %w, expected %v", mine, got, err, want)
		}
		one, err := spmd.AllGather(ctx, g, tensor.From(s, []int32{int32(r)}).Sum())
		if err != nil || !one.Shape().Equal(tensor.Shape{2}) {
			return fmt.Errorf("numbers without dims are joined to %v, %w", one, err)
		}
		_, err1 := spmd.ReduceScatter(ctx, g, collective.Sum, tensor.Ones(s, tensor.F32, 3))
		_, err2 := spmd.AllToAll(ctx, g, tensor.Ones(s, tensor.F32, 2).Sum())
		_, err3 := spmd.ReduceScatter(ctx, g, collective.Sum, tensor.Ones(s, tensor.Bool, 2))
		if !errors.Is(err1, collective.ErrLength) || !errors.Is(err2, collective.ErrLength) || !errors.Is(err3, collective.ErrOp) {
			return fmt.Errorf("%v; %v; %v", err1, err2, err3)
		}
		if g.Rank() == 0 {
			for _, src := range []*tensor.Tensor{nil, x} {
				if err := spmd.Scatter(ctx, g, x, src, 0); !errors.Is(err, collective.ErrLength) {
					return fmt.Errorf("a scatter of %v: %v", src, err)
				}
			}
		}
		return g.Barrier(ctx)
	})
}
