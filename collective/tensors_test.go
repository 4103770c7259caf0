package collective

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

func TestTensors(t *testing.T) {
	groups, err := Local(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, groups)
	ctx := hangGuard(t)
	all(t, groups, func(g *Group) error {
		s, err := cpu.NewSession(nil, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		r := float32(g.Rank())
		a := tensor.From(s, []float32{r, 2, 3, 4 * r}, 2, 2)
		b := tensor.Ones(s, tensor.F64, 3).MulS(float64(r))
		c := tensor.From(s, []float32{10 * r})
		double := a.Add(a) // of the value before
		live := s.Stats().Live
		if err := AllReduceTensors(ctx, g, Mean, a, b, c); err != nil {
			return err
		}
		if n := s.Stats().Live; n > live { // fewer, when the collector has found what was forgotten
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
		if err := AllReduceTensors(ctx, g, Mean, n); !errors.Is(err, ErrOp) {
			return fmt.Errorf("mean of integers: %v", err)
		}
		if err := AllReduceTensors(ctx, g, Sum, tensor.From(s, []bool{true})); !errors.Is(err, ErrOp) {
			return fmt.Errorf("sum of booleans: %v", err)
		}
		return AllReduceTensors(ctx, g, Sum, n)
	})
}
