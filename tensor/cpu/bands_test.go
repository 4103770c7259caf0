package cpu_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestTransposedOperands compares operations on transposed operands, beside one that is
// not, with the same on copies of them: in rows shorter and longer than a tile, with
// rests beside bands and squares, and in every size of element.
func TestTransposedOperands(t *testing.T) {
	for _, level := range levels() {
		d, err := cpu.NewEager(&cpu.Options{Level: &level, Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s := tensor.NewSession(device.NewEngine(d), nil)
		defer s.Close()
		for _, cols := range []int{9, 300, 2100} {
			const rows = 75
			for _, dt := range []tensor.DType{tensor.U8, tensor.BF16, tensor.F32, tensor.F64} {
				base := tensor.Rand(s, tensor.F32, 2*cols, 2*rows).MulS(100).Cast(dt)
				plain := tensor.Rand(s, tensor.F32, rows, cols).MulS(100).Cast(dt)
				for name, view := range map[string][]tensor.Range{
					"transposed":     {tensor.To(0, rows), tensor.To(0, cols)},
					"every second":   {tensor.By(0, 2*rows, 2), tensor.By(0, 2*cols, 2)},
					"from the end":   {tensor.By(tensor.All, tensor.All, -2), tensor.By(0, 2*cols, 2)},
					"from the right": {tensor.To(0, rows), tensor.By(tensor.All, tensor.All, -2)},
				} {
					t.Run(fmt.Sprint(level, " ", dt, " ", cols, " ", name), func(t *testing.T) {
						copied := base.T().Slice(view...) // kept, so it is row-major
						same := func(what string, f func(x *tensor.Tensor) *tensor.Tensor) {
							t.Helper()
							var got, want *tensor.Tensor
							s.Scope(func(sc *tensor.Scope) { got = sc.Keep(f(base.T().Slice(view...))) })
							s.Scope(func(sc *tensor.Scope) { want = sc.Keep(f(copied)) })
							sameBytes(t, what, got, want)
						}
						if err := s.Sync(); err != nil {
							t.Fatal(err)
						}
						same("max", func(x *tensor.Tensor) *tensor.Tensor { return x.Maximum(plain) })
						same("gt", plain.Gt)
						same("where", func(x *tensor.Tensor) *tensor.Tensor { return tensor.Where(plain.Gt(x), x, plain) })
						if dt != tensor.F32 {
							return
						}
						same("sum", func(x *tensor.Tensor) *tensor.Tensor { return x.Mul(plain).Sum(1) })
						same("bias", func(x *tensor.Tensor) *tensor.Tensor {
							a, b := plain.Slice(tensor.Every(), tensor.To(0, 5)), plain.Slice(tensor.To(0, 5))
							return a.Matmul(b).Add(x)
						})
					})
				}
			}
		}
	}
}

// TestTransposedBesideARow adds a row of every second byte, which is the same for all
// rows of the result, to a transposed operand: in rows that are one tile of bytes, and
// several pieces of a band.
func TestTransposedBesideARow(t *testing.T) {
	for _, level := range levels() {
		const rows, cols, prime = 16, 5000, 251
		data := make([]uint8, rows*cols)
		for i := range data {
			data[i] = uint8(i % prime)
		}
		got := newTraced(t, cpu.Options{Level: &level}, false).results(t, func(s *tensor.Session) []*tensor.Tensor {
			x, dense := tensor.From(s, data, cols, rows), tensor.From(s, data, rows, cols)
			row := tensor.From(s, data[:2*cols], 2*cols).Slice(tensor.By(0, 2*cols, 2))
			return []*tensor.Tensor{x.T().Add(dense).Add(row)}
		})[0]
		for i := range rows {
			for j := range cols {
				if x, want := got[i*cols+j], data[j*rows+i]+data[i*cols+j]+data[2*j]; x != want {
					t.Fatalf("%v: element %d, %d is %d, expected %d", level, i, j, x, want)
				}
			}
		}
	}
}

// sameBytes fails the test unless x and y have the same content.
func sameBytes(t *testing.T, what string, x, y *tensor.Tensor) {
	t.Helper()
	err := x.ViewBytes(func(got []byte) error {
		return y.ViewBytes(func(want []byte) error {
			if !bytes.Equal(got, want) {
				t.Errorf("%s: other elements than of a copy", what)
			}
			return nil
		})
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
