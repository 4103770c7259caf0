package cpu

import (
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

const (
	// wideBytes is the approximate size of the piece of a 16-bit operand that is widened
	// at a time, if it has at least wideRows rows.
	wideBytes = 1 << 20
	wideRows  = 32

	// strip is how many columns of at most some thousand numbers are made ready between
	// two looks at the stop flag.
	strip = 1 << 10
)

// halfMatmul lowers the product of two matrices, of which one or both are of 16 bits.
func (lw *lowerer) halfMatmul(s *compile.Step) func(r *run) error {
	product := lw.rectangle(s, s.Out)
	return func(r *run) error {
		if i0, i1, j0, j1 := kernel.Split(s.Out.Shape[0], s.Out.Shape[1], r.parts, r.part); i0 < i1 && j0 < j1 {
			product(r, i0, i1, j0, j1)
		}
		return nil
	}
}

// rectangle computes rows i0 to i1 and columns j0 to j1 of the product of the first two
// operands of s, matrices of f32 or of 16 bits, which lies at c.
func (lw *lowerer) rectangle(s *compile.Step, c compile.Operand) func(r *run, i0, i1, j0, j1 int) {
	if lw.table.Brain != nil && s.In[0].DType == tensor.BF16 && s.In[1].DType == tensor.BF16 {
		return lw.brainRectangle(s, c)
	}
	// both by the product's part of them: rows and columns
	a, b := lw.matrixOf(s.In[0]), lw.matrixOf(turned(s.In[1]))
	k, n := s.In[0].Shape[1], s.In[1].Shape[1]
	return func(r *run, i0, i1, j0, j1 int) {
		to := slice[float32](r.bufs[c.Buf])
		for j := j0; j < j1 && !r.stopped(); {
			nc := b.step(j1-j, k)
			right := b.read(r, &r.wide[1], j, nc, k)
			right.RS, right.CS = right.CS, right.RS
			for i := i0; i < i1 && !r.stopped(); {
				mc := a.step(i1-i, k)
				gemm32(r, mc, nc, k, a.read(r, &r.wide[0], i, mc, k), right, false, to[i*n+j:], n)
				i += mc
			}
			j += nc
		}
	}
}

// turned returns matrix o transposed.
func turned(o compile.Operand) compile.Operand {
	o.Shape, o.Strides = tensor.Shape{o.Shape[1], o.Shape[0]}, []int{o.Strides[1], o.Strides[0]}
	return o
}

// matrix is an operand of a product by the rows of it that are read at a time.
type matrix struct {
	buf, off, rs, cs int
	widen            func(dst []float32, x []uint16) // of 16 bits; nil: of f32
}

func (lw *lowerer) matrixOf(o compile.Operand) matrix {
	m := matrix{buf: o.Buf, off: o.Off, rs: o.Strides[0], cs: o.Strides[1]}
	switch o.DType {
	case tensor.F16:
		m.widen = lw.table.WidenF16
	case tensor.BF16:
		m.widen = lw.table.WidenBF16
	}
	return m
}

// step returns how many of n rows of k are read at a time: all of f32, which are read in
// place.
func (m *matrix) step(n, k int) int {
	if m.widen == nil {
		return n
	}
	return min(n, max(wideBytes/(4*k)/wideRows*wideRows, wideRows))
}

// apart returns the distance of widened rows of k elements. Rows at a multiple of 2 KiB
// would share a few lines of the first-level cache, in which products read many at once.
func apart(k int) int {
	const line = 16
	if k%(32*line) == 0 {
		return k + line
	}
	return k
}

// read returns n rows of k elements from row i on. Rows that must be widened are in
// *wide, in the order in which they are stored if their rows or columns are contiguous.
// Those of a program that is to end are undefined.
func (m *matrix) read(r *run, wide *[]float32, i, n, k int) kernel.Matrix[float32] {
	at := m.off + i*m.rs
	if m.widen == nil {
		return kernel.Matrix[float32]{Data: slice[float32](r.bufs[m.buf])[at:], RS: m.rs, CS: m.cs}
	}
	ld := apart(k)
	*wide = grow(r, *wide, n*ld)
	dst, src := (*wide)[:n*ld], slice[uint16](r.bufs[m.buf])
	switch {
	case m.cs == 1 || k == 1:
		for j := range n {
			for l := 0; l < k && !r.stopped(); l += breath {
				m.widen(dst[j*ld+l:j*ld+min(k, l+breath)], src[at+j*m.rs+l:])
			}
		}
		return kernel.Matrix[float32]{Data: dst, RS: ld, CS: 1}
	case m.rs == 1 || n == 1:
		for j := range k {
			if j%strip == 0 && r.stopped() {
				break
			}
			m.widen(dst[j*n:(j+1)*n], src[at+j*m.cs:])
		}
		return kernel.Matrix[float32]{Data: dst, RS: 1, CS: n}
	default:
		for j := range n {
			for l := range k {
				if l%breath == 0 && r.stopped() {
					break
				}
				m.widen(dst[j*k+l:j*k+l+1], src[at+j*m.rs+l*m.cs:])
			}
		}
	}
	return kernel.Matrix[float32]{Data: dst, RS: k, CS: 1}
}
