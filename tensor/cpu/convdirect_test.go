package cpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
)

// TestConvolutionsAgree wants convolutions of f32, most of which are computed directly,
// to agree with those of f64, which never are, for random geometries and levels; and
// pools as well.
func TestConvolutionsAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, level := range levels() {
		s, err := cpu.NewSession(&cpu.Options{Level: &level}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			groups := 1 + r.IntN(2)
			n, c, o := 1+r.IntN(3), groups*(1+r.IntN(3)), groups*(1+r.IntN(18))
			kh, kw := 1+r.IntN(4), 1+r.IntN(4)
			switch r.IntN(4) {
			case 0: // of each channel by itself
				groups = 1 + r.IntN(8)
				c, o = groups, groups*(1+r.IntN(2))
			case 1:
				kh, kw = 1, 1
			case 2:
				kh, kw, o = 3, 3, groups*(1+r.IntN(40))
			}
			stride := [2]int{1 + r.IntN(2), 1 + r.IntN(3)/2}
			dilation := [2]int{1 + r.IntN(2), 1 + r.IntN(2)}
			pad := [2]int{r.IntN(3), r.IntN(3)}
			h, w := (kh-1)*dilation[0]+1+r.IntN(9), (kw-1)*dilation[1]+1+r.IntN(40)
			opt := tensor.ConvOptions{Stride: stride, Pad: pad, Dilation: dilation, Groups: groups}
			geometry := []int64{int64(stride[0]), int64(stride[1]), int64(pad[0]), int64(pad[1]), int64(dilation[0]), int64(dilation[1]), int64(groups)}
			sized := func(h, w int) []int64 { return append(geometry[:7:7], int64(h), int64(w)) }
			x, weights := tensor.RandN(s, tensor.F32, n, c, h, w), tensor.RandN(s, tensor.F32, o, c/groups, kh, kw)
			dy := tensor.RandN(s, tensor.F32, x.Conv2D(weights, nil, opt).Shape()...)
			T := tensor.T
			results := func(x, weights, dy *tensor.Tensor) []*tensor.Tensor {
				out := []*tensor.Tensor{
					x.Conv2D(weights, nil, opt),
					s.Apply(tensor.OpConv2DGradX, sized(h, w), T(dy), T(weights)),
					s.Apply(tensor.OpConv2DGradW, sized(kh, kw), T(x), T(dy)),
				}
				if h > 2 && w > 2 {
					for _, k := range [][2]int{{2, 2}, {3, 1}, {2, 1}} {
						p := x.MaxPool2D(k[0], k[1], k[0]-2)
						ints := []int64{int64(k[0]), int64(k[0]), int64(k[1]), int64(k[1]), int64(k[0] - 2), int64(k[0] - 2)}
						out = append(out, p, s.Apply(tensor.OpMaxPool2DGrad, ints, T(x), T(p)), x.AvgPool2D(k[0], k[1], k[0]-2))
					}
				}
				return out
			}
			wide := func(t *tensor.Tensor) *tensor.Tensor { return t.Cast(tensor.F64) }
			want := results(wide(x), wide(weights), wide(dy))
			for i, got := range results(x, weights, dy) {
				a, err := tensor.Data[float32](got)
				if err != nil {
					t.Fatal(err)
				}
				b, err := tensor.Data[float64](want[i])
				if err != nil {
					t.Fatal(err)
				}
				size := 1.0
				for _, v := range b {
					size = max(size, math.Abs(v))
				}
				for j, v := range a {
					if !(math.Abs(float64(v)-b[j]) <= 1e-5*size) {
						t.Fatalf("%v: result %d of x %v, weights %v, %+v: element %d is %v, expected %v", level, i, x.Shape(), weights.Shape(), opt, j, v, b[j])
					}
				}
			}
		}
		s.Close()
	}
}
