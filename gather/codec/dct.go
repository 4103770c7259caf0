package codec

import "math"

// dct is the orthonormal DCT-II of n points: m[i*n+k] = a_k cos(π(2i+1)k/2n), with
// a_0 = √(1/n) and else √(2/n). Its inverse is its transpose.
type dct struct {
	n int
	m []float64
}

func newDCT(n int) *dct {
	d := &dct{n, make([]float64, n*n)}
	for i := range n {
		for k := range n {
			a := math.Sqrt(2 / float64(n))
			if k == 0 {
				a = math.Sqrt(1 / float64(n))
			}
			d.m[i*n+k] = a * math.Cos(math.Pi*float64(2*i+1)*float64(k)/float64(2*n))
		}
	}
	return d
}

// Transform turns rows of one parameter into coefficients and back. It is not for
// concurrent use.
type Transform struct {
	h, w     *dct
	tmp, out []float64
}

// NewTransform returns the transform of p's rows.
func NewTransform(p *Param) *Transform {
	n := p.TotalK
	return &Transform{newDCT(p.H), newDCT(p.W), make([]float64, n), make([]float64, n)}
}

// Forward replaces the elements of a chunk by their coefficients.
func (t *Transform) Forward(x []float32) { t.apply(x, false) }

// Inverse replaces coefficients by elements.
func (t *Transform) Inverse(x []float32) { t.apply(x, true) }

// apply multiplies from both sides in float64. Products are rounded before they are
// added, so that all processors give the same bits.
func (t *Transform) apply(x []float32, inverse bool) {
	at := func(d *dct, i, k int) float64 {
		if inverse {
			i, k = k, i
		}
		return d.m[i*d.n+k]
	}
	h, w := t.h.n, t.w.n
	for y := range h {
		for k := range w {
			var s float64
			for i := range w {
				s += float64(float64(x[y*w+i]) * at(t.w, i, k))
			}
			t.tmp[y*w+k] = s
		}
	}
	for k := range h {
		for j := range w {
			var s float64
			for i := range h {
				s += float64(t.tmp[i*w+j] * at(t.h, i, k))
			}
			t.out[k*w+j] = s
		}
	}
	for i, v := range t.out {
		x[i] = float32(v)
	}
}
