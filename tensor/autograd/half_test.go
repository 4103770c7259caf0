package autograd_test

import (
	"math"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
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
	// Several operations of halves are rounded once: p-1 is not a bf16.
	base := tensor.From(s, []element.BFloat16{element.ToBFloat16(9984)}).RequireGrad()
	p := element.ToBFloat16(0.1)
	pw := float64(p.Float32())
	dx, err = tensor.Data[element.BFloat16](grad(t, base.Pow(tensor.From(s, []element.BFloat16{p})).Sum(), base)[0])
	if want := element.ToBFloat16(float32(pw * math.Pow(9984, pw-1))); err != nil || dx[0] != want {
		t.Errorf("the gradient of 9984^0.1 is %v, expected %v (error %v)", dx, want.Float32(), err)
	}
	f16 := tensor.From(s, []element.Float16{element.ToFloat16(40000)}).RequireGrad()
	dy := tensor.From(s, []element.Float16{element.ToFloat16(0.5)})
	out, err := autograd.GradWith(&autograd.Options{GradOutput: dy}, f16.Square(), f16)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tensor.Data[element.Float16](out[0]); err != nil || got[0].Float32() != 40000 {
		t.Errorf("the gradient of a square is %v, expected 40000 (error %v)", got, err)
	}
	if h := grad(t, x.Square().Sum(), x)[0]; h.DType() != tensor.BF16 {
		t.Errorf("the gradient of a sum of bf16 is %v", h)
	}
}
