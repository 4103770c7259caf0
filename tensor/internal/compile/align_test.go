package compile

import (
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

// TestAlign checks that all temporaries begin at multiples of Options.Align, and that the
// arena does not grow by more than that asks for.
func TestAlign(t *testing.T) {
	f := func(s *tensor.Session, sc *tensor.Scope, _, _ *tensor.Tensor) {
		x := tensor.RandN(s, tensor.F32, 33, 7)
		for range 5 {
			x = x.Matmul(x.T()).Cumsum(0).Matmul(x)
		}
		sc.Keep(x)
	}
	small := planWith(t, nil, f)
	for _, align := range []int{0, 64, 256, 4096} {
		p := planWith(t, &Options{Align: align}, f)
		align = max(align, Align)
		temps := 0
		for i, b := range p.Buffers {
			if b.Place == Temp && b.Size > 0 {
				temps++
				if b.Off%align != 0 {
					t.Errorf("Align %d: buffer %d lies at %d", align, i, b.Off)
				}
			}
		}
		if temps < 3 || p.Temp%align != 0 || p.Temp > small.Temp+temps*align {
			t.Errorf("Align %d: %d temporaries in %d bytes, with Align %d in %d", align, temps, p.Temp, Align, small.Temp)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("Align 96 was taken")
		}
	}()
	planWith(t, &Options{Align: 96}, f)
}
