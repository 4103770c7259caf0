package cpu

import "github.com/ringside-go/ringside/tensor/cpu/internal/kernel"

// Product is a matrix product c = a*b of float32, without a program around it: benchmarks
// compare it with other libraries. It is cut into parts that may be computed
// concurrently.
type Product struct {
	table   *kernel.Table[float32]
	m, n, k int
	a, b    kernel.Matrix[float32]
	c       []float32
	scratch [][]float32 // of each part
}

// NewProduct returns a product of m×k and k×n numbers in the given number of parts, with
// operands of its own. Operands that are transposed lie in memory column by column.
func NewProduct(m, n, k int, aTransposed, bTransposed bool, parts int) *Product {
	operand := func(rows, cols int, transposed bool) kernel.Matrix[float32] {
		v := make([]float32, rows*cols)
		for i := range v {
			v[i] = float32(i%13)/13 - 0.5
		}
		if transposed {
			return kernel.Matrix[float32]{Data: v, RS: 1, CS: rows}
		}
		return kernel.Matrix[float32]{Data: v, RS: cols, CS: 1}
	}
	p := &Product{table: kernel.Best(), m: m, n: n, k: k, c: make([]float32, m*n),
		a: operand(m, k, aTransposed), b: operand(k, n, bTransposed)}
	for range parts {
		p.scratch = append(p.scratch, make([]float32, kernel.GemmScratch(m, n, k)))
	}
	return p
}

// Compute computes part i.
func (p *Product) Compute(i int) {
	i0, i1, j0, j1 := kernel.Split(p.m, p.n, len(p.scratch), i)
	if i0 < i1 && j0 < j1 {
		p.table.Gemm(i1-i0, j1-j0, p.k, 1, p.a.Sub(i0, 0), p.b.Sub(0, j0), false, p.c[i0*p.n+j0:], p.n, p.scratch[i], nil)
	}
}

// AdamWPass returns a function that makes one step of AdamW over the parameters p, the
// moments m and v and the gradient g, without a program around it, for benchmarks.
func AdamWPass(p, m, v, g []float32) func() {
	table := kernel.Best()
	step := kernel.AdamWStep[float32]{Beta1: 0.9, Rest1: 0.1, Beta2: 0.99, Rest2: 0.01, Root: 1, Eps: 1e-8, Decay: 0.99, Rate: 1e-3}
	return func() { table.AdamW(p, m, v, p, m, v, g, step) }
}
