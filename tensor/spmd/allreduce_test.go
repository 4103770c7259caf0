package spmd_test

import (
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

func TestAllReduce(t *testing.T) {
	groups, err := collective.Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rank := func(g *collective.Group) error {
		s, err := cpu.NewSession(nil, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		r := float32(g.Rank())
		a := tensor.From(s, []float32{r, 2, 3, 4 * r}, 2, 2)
		b := tensor.Ones(s, tensor.F64, 3).MulS(float64(r))
		c := tensor.From(s, []float32{10 * r})
		double := a.Add(a) // of the old value
		live := s.Stats().Live
		if err := spmd.AllReduce(ctx, g, collective.Mean, a, b, c); err != nil {
			return err
		}
		// Fewer, if the garbage collector has found dropped values.
		if n := s.Stats().Live; n > live {
			return fmt.Errorf("%d tensors are live, %d before", n, live)
		}
		da, err1 := tensor.Data[float32](a)
		db, err2 := tensor.Data[float64](b)
		dc, err3 := tensor.Data[float32](c)
		dd, err4 := tensor.Data[float32](double)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return err
		}
		if !slices.Equal(da, []float32{0.5, 2, 3, 2}) || !slices.Equal(db, []float64{0.5, 0.5, 0.5}) || dc[0] != 5 || dd[0] != 2*r {
			return fmt.Errorf("%v %v %v %v", da, db, dc, dd)
		}
		n := tensor.From(s, []int32{1, 2})
		if err := spmd.AllReduce(ctx, g, collective.Mean, n); !errors.Is(err, collective.ErrOp) {
			return fmt.Errorf("mean of integers: %v", err)
		}
		if err := spmd.AllReduce(ctx, g, collective.Sum, tensor.From(s, []bool{true})); !errors.Is(err, collective.ErrOp) {
			return fmt.Errorf("sum of booleans: %v", err)
		}
		return spmd.AllReduce(ctx, g, collective.Sum, n)
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			defer g.Close()
			if err := rank(g); err != nil {
				t.Errorf("rank %d: %v", g.Rank(), err)
			}
		})
	}
	wg.Wait()
}
