package cpu_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// TestValuesInAnotherOrder reads results of operations on a transposed tensor, which lie
// as it does, in later programs and as bytes.
func TestValuesInAnotherOrder(t *testing.T) {
	d, err := cpu.NewEager(&cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var dense, steps int
	d.OnStep(func(p *compile.Plan, k int) {
		steps++
		if !slices.ContainsFunc(p.Steps[k].In, func(o compile.Operand) bool { return o.Scalar < 0 && !o.Dense }) {
			dense++
		}
	})
	s := tensor.NewSession(device.NewEngine(d), nil)
	defer s.Close()
	const rows, cols = 37, 70
	data := make([]float32, rows*cols)
	for i := range data {
		data[i] = float32(i)
	}
	x := tensor.From(s, data, cols, rows)
	at := func(i, j int) float32 { return data[j*rows+i] }
	kept := func(f func() *tensor.Tensor) (y *tensor.Tensor) {
		t.Helper()
		dense, steps = 0, 0
		s.Scope(func(sc *tensor.Scope) { y = sc.Keep(f()) })
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if dense != steps || steps == 0 {
			t.Errorf("%d of %d steps read contiguous operands", dense, steps)
		}
		return y
	}
	wants := func(what string, y *tensor.Tensor, f func(i, j int) float32) {
		t.Helper()
		got, err := tensor.Data[float32](y)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i := range rows {
			for j := range cols {
				if want := f(i, j); got[i*cols+j] != want {
					t.Fatalf("%s: element %d, %d is %v, want %v", what, i, j, got[i*cols+j], want)
				}
			}
		}
	}
	y := kept(func() *tensor.Tensor { return x.T().Neg() })
	// of two values in one order
	z := kept(func() *tensor.Tensor { return y.MulS(2).Add(x.T()) })
	wants("a sum", z, func(i, j int) float32 { return -at(i, j) })
	wants("its operand", y, func(i, j int) float32 { return -at(i, j) })
	u := kept(func() *tensor.Tensor { return x.T().AddS(1) })
	w := kept(func() *tensor.Tensor {
		defer u.Free() // donated
		return u.AddS(1)
	})
	wants("a result in a donated input's memory", w, func(i, j int) float32 { return at(i, j) + 2 })
	v := kept(func() *tensor.Tensor { return x.T().AddS(3) })
	mixed := v.Add(tensor.From(s, slices.Repeat([]float32{1}, rows*cols), rows, cols))
	wants("beside a row-major operand", mixed, func(i, j int) float32 { return at(i, j) + 4 })
	wants("an operand of a copy", s.Apply(tensor.OpCast, []int64{int64(tensor.F32)}, tensor.T(v)), func(i, j int) float32 { return at(i, j) + 3 })
}

// TestInputsInManyOrders runs one program with inputs in more orders of dims than it is
// compiled for.
func TestInputsInManyOrders(t *testing.T) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data := make([]float32, 4*4*4)
	for i := range data {
		data[i] = float32(i)
	}
	x := tensor.From(s, data, 4, 4, 4)
	for _, p := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		y := x.Permute(p[:]...).Neg()
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		got, err := tensor.Data[float32](y.MulS(-1))
		if err != nil {
			t.Fatal(err)
		}
		var want []float32
		strides := [3]int{16, 4, 1}
		for i := range 4 {
			for j := range 4 {
				for k := range 4 {
					want = append(want, data[i*strides[p[0]]+j*strides[p[1]]+k*strides[p[2]]])
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Error(fmt.Sprint(p), got)
		}
	}
}
