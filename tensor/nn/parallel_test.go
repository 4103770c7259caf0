package nn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/nn"
)

// TestDataParallel: two ranks with other weights begin with rank 0's; the mean stands in
// place of every gradient that one rank has, and nil of what none has.
func TestDataParallel(t *testing.T) {
	parallel(t, func(ctx context.Context, g *collective.Group, s *tensor.Session) error {
		s.Seed(uint64(1 + g.Rank()))
		net := nn.Sequential{nn.NewLinear(s, 2, 3, true), nn.ReLU(), nn.NewLinear(s, 3, 1, false)}
		d, err := nn.NewDataParallel(ctx, g, net)
		if err != nil {
			return err
		}
		for _, p := range net.Params() {
			mine, err := tensor.Data[float32](p.T)
			if err != nil {
				return err
			}
			all := make([]float32, 2*len(mine))
			if err := collective.AllGather(ctx, g, all, mine); err != nil {
				return err
			}
			if !slices.Equal(all[:len(mine)], all[len(mine):]) || !p.T.RequiresGrad() {
				return fmt.Errorf("%s is not the same on both ranks: %v", p.Name, all)
			}
		}
		grads := []*tensor.Tensor{tensor.Ones(s, tensor.F32, 3, 2).MulS(float64(4 * g.Rank())), nil, nil}
		if g.Rank() == 1 {
			grads[1] = tensor.Ones(s, tensor.F32, 3)
		}
		if len(net.Params()) != len(grads) {
			return fmt.Errorf("%d parameters", len(net.Params()))
		}
		if err := d.Average(ctx, grads); err != nil {
			return err
		}
		first, err1 := tensor.Data[float32](grads[0])
		second, err2 := tensor.Data[float32](grads[1])
		if err := errors.Join(err1, err2); err != nil || !slices.Equal(first, []float32{2, 2, 2, 2, 2, 2}) || !slices.Equal(second, []float32{.5, .5, .5}) || grads[2] != nil {
			return fmt.Errorf("%v %v %v, %w", first, second, grads[2], err)
		}
		if err := d.Average(ctx, grads[:1]); !errors.Is(err, collective.ErrLength) {
			return fmt.Errorf("one gradient: %v", err)
		}
		return nil
	})
}

// TestBroadcastStateDiffers: all ranks are told which parameter differs, and how.
func TestBroadcastStateDiffers(t *testing.T) {
	parallel(t, func(ctx context.Context, g *collective.Group, s *tensor.Session) error {
		named := func(name string, dims ...int) tensor.Named {
			return tensor.Named{Name: name, T: tensor.Full(s, tensor.F32, float64(g.Rank()), dims...)}
		}
		same := named("same", 2)
		for _, c := range []struct {
			of   [2][]tensor.Named // by rank
			says string
		}{
			{[2][]tensor.Named{{same, named("w", 2)}, {same, named("w", 3)}}, "parameter 1 is w f32[3], the root's w f32[2]"},
			{[2][]tensor.Named{{same}, {same, named("b", 1)}}, "b f32[1], which the root lacks"},
			{[2][]tensor.Named{{same, named("b", 1)}, {same}}, "1 parameters, without b f32[1]"},
		} {
			err := nn.BroadcastState(ctx, g, 0, c.of[g.Rank()])
			if !errors.Is(err, nn.ErrRanks) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "rank 1 and rank 0, the root") {
				return fmt.Errorf("%v, expected %q", err, c.says)
			}
		}
		x, err := tensor.Data[float32](same.T)
		if err != nil || x[0] != float32(g.Rank()) {
			return fmt.Errorf("%v, %w: changed in spite of the error", x, err)
		}
		return nil
	})
}

// parallel calls f as each of two ranks, with a session of its own.
func parallel(t *testing.T, f func(ctx context.Context, g *collective.Group, s *tensor.Session) error) {
	t.Helper()
	groups, err := collective.Local(2, nil)
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
