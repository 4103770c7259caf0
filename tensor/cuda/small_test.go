package cuda_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestSmallInputs sends more small values than a run's page has room for, and reads each
// in several runs, beside an alias and after an update.
func TestSmallInputs(t *testing.T) {
	s, d := session(t, 1, small)
	const n, values = 1000, 40
	var xs []*tensor.Tensor
	for i := range values {
		x := make([]float32, n)
		for k := range x {
			x[k] = float32(i + k%3)
		}
		xs = append(xs, tensor.From(s, x, n))
	}
	for round := range 4 {
		before := d.Counters()
		var sum *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			sum = xs[0].MulS(float64(round))
			for _, x := range xs[1:] {
				sum = sum.Add(x)
			}
			sum = sc.Keep(sum)
		})
		got, err := tensor.Data[float32](sum)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range got {
			if want := float32(round*(k%3) + values*(values-1)/2 + (values-1)*(k%3)); v != want {
				t.Fatalf("round %d: element %d is %g, expected %g", round, k, v, want)
			}
		}
		sum.Free()
		up := d.Counters().Up - before.Up
		if all := uint64(4 * n * values); round == 0 && up != all || round == 1 && (up == 0 || up >= all) || round > 1 && up > 0 {
			t.Errorf("round %d: %d bytes went up, expected all %d, then the rest, then none", round, up, all)
		}
	}
	for i, x := range xs {
		got, err := tensor.Data[float32](x)
		if err != nil || len(got) != n || got[n-1] != float32(i) {
			t.Errorf("value %d in the end: %v, %v", i, got[max(0, len(got)-1):], err)
		}
	}
}

// TestSmallResults reads results that runs copy to the host by themselves: at once, late
// behind many other runs, and beside a run that fails.
func TestSmallResults(t *testing.T) {
	s, d := session(t, 1, small)
	table := tensor.From(s, []float32{1, 2, 3, 4}, 4)
	pick := func(i int64) *tensor.Tensor {
		var y *tensor.Tensor
		idx := tensor.From(s, []int64{i}, 1)
		s.Scope(func(sc *tensor.Scope) { y = sc.Keep(table.IndexSelect(0, idx).MulS(10)) })
		idx.Free()
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		return y
	}
	for i := range 6 {
		before := d.Counters()
		y := pick(int64(i % 4))
		if got, err := tensor.Data[float32](y); err != nil || got[0] != float32(10*(i%4+1)) {
			t.Errorf("run %d: %v, %v", i, got, err)
		}
		y.Free() // so that the next run's result lies there
		if down := d.Counters().Down - before.Down; i > 4 && down > 0 {
			t.Errorf("run %d copied %d bytes for its reader alone", i, down)
		}
	}
	var late []*tensor.Tensor
	for i := range 150 {
		late = append(late, pick(int64(i%4)))
	}
	for i := range slices.Backward(late) {
		if got, err := tensor.Data[float32](late[i]); err != nil || got[0] != float32(10*(i%4+1)) {
			t.Errorf("result %d, read late: %v, %v", i, got, err)
		}
	}
	good, bad := pick(3), pick(4)
	if _, err := tensor.Data[float32](bad); !errors.Is(err, tensor.ErrIndex) {
		t.Errorf("an index out of range: %v, expected %v", err, tensor.ErrIndex)
	}
	_ = s.ClearErr()
	if got, err := tensor.Data[float32](good); err != nil || got[0] != 40 {
		t.Errorf("the run before the one that failed: %v, %v", got, err)
	}
	if got, err := tensor.Data[float32](pick(0)); err != nil || got[0] != 10 {
		t.Errorf("after the run that failed: %v, %v", got, err)
	}
}
