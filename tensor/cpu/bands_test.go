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
