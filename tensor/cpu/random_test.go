package cpu_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
)

// TestRandOfHalves: uniform numbers of 16 bits are those of f32, cut. Rounded to the
// nearest number of the type, the largest would be 1.
func TestRandOfHalves(t *testing.T) {
	d, err := cpu.NewEager(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const n = 1 << 17
	draw := func(dt tensor.DType, f func(x []float32)) {
		s := tensor.NewSession(device.NewEngine(d), nil)
		defer s.Close()
		err := tensor.View(tensor.Rand(s, dt, n).Cast(tensor.F32), func(x []float32) error {
			f(x)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	draw(tensor.F32, func(wide []float32) {
		for dt, steps := range map[tensor.DType]float32{tensor.F16: 1 << 11, tensor.BF16: 1 << 8} {
			draw(dt, func(x []float32) {
				for i := range x {
					if want := float32(int(wide[i]*steps)) / steps; x[i] != want {
						t.Fatalf("element %d of %v is %g, expected %g", i, dt, x[i], want)
					}
				}
			})
		}
	})
}
