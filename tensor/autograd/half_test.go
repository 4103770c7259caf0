package autograd_test

import (
	"math"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
)

// TestHalfGradients: a bf16 leaf has a bf16 gradient, and a leaf that is cast for f32
// arithmetic has a gradient that is rounded once.
func TestHalfGradients(t *testing.T) { devicetest.Each(t, testHalfGradients) }

func testHalfGradients(t *devicetest.T) {
	s, _ := peaking(t)
	x := tensor.From(s, []element.BFloat16{element.ToBFloat16(0.3), element.ToBFloat16(-1.7)}).RequireGrad()
	w := tensor.From(s, []float32{0.1, 0.7}).RequireGrad()
	g := grad(t, x.Mul(w).Tanh().Sum(), x, w)
	if g[0].DType() != tensor.BF16 || g[1].DType() != tensor.F32 {
		t.Fatalf("gradients of %v and %v are %v and %v", x, w, g[0], g[1])
	}
	dx, err := tensor.Data[element.BFloat16](g[0])
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range []float64{float64(element.ToBFloat16(0.3).Float32()), float64(element.ToBFloat16(-1.7).Float32())} {
		wv := float64([]float32{0.1, 0.7}[i])
		y := math.Tanh(v * wv)
		if want := element.ToBFloat16(float32(wv * (1 - y*y))); dx[i] != want {
			t.Errorf("gradient %d is %v, expected %v", i, dx[i].Float32(), want.Float32())
		}
	}
	if h := grad(t, x.Square().Sum(), x)[0]; h.DType() != tensor.BF16 {
		t.Errorf("the gradient of a sum of bf16 is %v", h)
	}
}
