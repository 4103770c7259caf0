package cpu_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestCopiesOfPermutes compares copies of all permutes, alone, joined and padded, with
// elements taken one by one. The sizes leave rests beside the blocks that copies go by.
func TestCopiesOfPermutes(t *testing.T) {
	shape := []int{3, 67, 130}
	n := tensor.Shape(shape).Elems()
	strides := []int{67 * 130, 130, 1}
	for _, level := range levels() {
		d, err := cpu.NewEager(&cpu.Options{Level: &level, Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s := tensor.NewSession(device.NewEngine(d), nil)
		defer s.Close()
		for _, dt := range []tensor.DType{tensor.U8, tensor.BF16, tensor.F32, tensor.F64} {
			size := dt.Size()
			data := make([]byte, n*size)
			for i := range data {
				data[i] = byte(i*31 + i/256*7 + i>>16)
			}
			x := tensor.FromBytes(s, dt, data, shape...)
			for _, p := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
				var plain, twice, padded []byte
				rows := func(f func(row []byte)) {
					for i := range shape[p[0]] {
						for j := range shape[p[1]] {
							var row []byte
							for k := range shape[p[2]] {
								at := (i*strides[p[0]] + j*strides[p[1]] + k*strides[p[2]]) * size
								row = append(row, data[at:at+size]...)
							}
							f(row)
						}
					}
				}
				rows(func(row []byte) {
					plain = append(plain, row...)
					twice = append(append(twice, row...), row...)
					padded = append(append(append(padded, make([]byte, size)...), row...), make([]byte, 2*size)...)
				})
				y := x.Permute(p[:]...)
				for name, c := range map[string]struct {
					got  *tensor.Tensor
					want []byte
				}{
					"copy":   {s.Apply(tensor.OpCast, []int64{int64(dt)}, tensor.T(y)), plain},
					"concat": {tensor.Concat(2, y, y), twice},
					"pad":    {y.Pad(0, [2]int{}, [2]int{}, [2]int{1, 2}), padded},
				} {
					t.Run(fmt.Sprint(level, " ", dt, " ", p, " ", name), func(t *testing.T) {
						if err := c.got.ViewBytes(func(b []byte) error {
							if !bytes.Equal(b, c.want) {
								t.Error("elements are not in their places")
							}
							return nil
						}); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	}
}

// TestScatterAddToOneRow adds to views of one row, whose stride between rows is that of
// the tensor they were cut from.
func TestScatterAddToOneRow(t *testing.T) {
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	idx := tensor.From(s, []int64{0}, 1, 1)
	src := tensor.From(s, []float32{10}, 1, 1)
	column := tensor.From(s, []float32{1, 2, 3, 4, 5, 6}, 6, 1)
	wide := tensor.From(s, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2)
	for name, c := range map[string]struct {
		x    func() *tensor.Tensor
		want []float32
	}{
		"transpose": {column.T, []float32{11, 2, 3, 4, 5, 6}},
		"expanded":  {func() *tensor.Tensor { return column.Reshape(6).Expand(1, 6) }, []float32{11, 2, 3, 4, 5, 6}},
		"a step":    {func() *tensor.Tensor { return wide.Slice(tensor.By(0, 4, 4)) }, []float32{11, 2}},
	} {
		var y *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) { y = sc.Keep(c.x().ScatterAdd(1, idx, src)) })
		if got, err := tensor.Data[float32](y); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, expected %v", name, got, err, c.want)
			s.ClearErr()
		}
	}
}
