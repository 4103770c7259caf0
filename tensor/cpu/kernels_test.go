package cpu

import (
	"math"
	"testing"
)

// TestProduct compares all transpositions of a product in parts with a plain loop.
func TestProduct(t *testing.T) {
	const m, n, k = 37, 70, 19
	for mode := range 4 {
		p := NewProduct(m, n, k, mode&1 != 0, mode&2 != 0, 3)
		for i := range 3 {
			p.Compute(i)
		}
		for i := range m {
			for j := range n {
				var want float64
				for q := range k {
					want += float64(p.a.Data[i*p.a.RS+q*p.a.CS]) * float64(p.b.Data[q*p.b.RS+j*p.b.CS])
				}
				if got := p.c[i*n+j]; math.Abs(float64(got)-want) > 1e-5 {
					t.Fatalf("mode %d: element (%d, %d) is %v, want %v", mode, i, j, got, want)
				}
			}
		}
	}
}

// TestAdamWPass wants a step against the gradient, and moments that follow the gradient.
func TestAdamWPass(t *testing.T) {
	p, m, v, g := []float32{1, 1}, []float32{0, 0}, []float32{0, 0}, []float32{2, -2}
	AdamWPass(p, m, v, g)()
	if !(p[0] < 0.99 && p[1] > 0.99 && p[1] > p[0] && m[0] == 0.2 && m[1] == -0.2 && v[0] > 0 && v[0] == v[1]) {
		t.Errorf("parameters %v, moments %v and %v", p, m, v)
	}
}
