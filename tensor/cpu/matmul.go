package cpu

import (
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu/internal/kernel"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// product computes c = a*b (+ c if add) of m x k and k x n, with c's rows ldc apart.
type product[T kernel.Number] func(r *run, m, n, k int, a, b kernel.Matrix[T], add bool, c []T, ldc int)

func gemm32(r *run, m, n, k int, a, b kernel.Matrix[float32], add bool, c []float32, ldc int) {
	r.pack = grow(r, r.pack, kernel.GemmScratch(m, n, k))
	r.table.Gemm(m, n, k, 1, a, b, add, c, ldc, r.pack, r.stop)
}

func gemm64(r *run, m, n, k int, a, b kernel.Matrix[float64], add bool, c []float64, ldc int) {
	r.pack64 = grow(r, r.pack64, kernel.GemmScratch(m, n, k))
	r.table64.Gemm(m, n, k, 1, a, b, add, c, ldc, r.pack64, r.stop)
}

func gemmI32(r *run, m, n, k int, a, b kernel.Matrix[int32], add bool, c []int32, ldc int) {
	r.packI32 = grow(r, r.packI32, kernel.GemmScratch(m, n, k))
	r.ints.I32(m, n, k, a, b, add, c, ldc, r.packI32, r.stop)
}

func gemmI64(r *run, m, n, k int, a, b kernel.Matrix[int64], add bool, c []int64, ldc int) {
	r.packI64 = grow(r, r.packI64, kernel.GemmScratch(m, n, k))
	r.ints.I64(m, n, k, a, b, add, c, ldc, r.packI64, r.stop)
}

func gemmU8(r *run, m, n, k int, a, b kernel.Matrix[uint8], add bool, c []uint8, ldc int) {
	r.ints.U8(m, n, k, a, b, add, c, ldc, &r.packU8, r.stop)
}

// matmul lowers a batched product. Transposed and broadcast operands are strides.
func (lw *lowerer) matmul(s *compile.Step) func(r *run) error {
	switch s.Out.DType {
	case tensor.F32:
		if s.In[0].DType.IsHalf() || s.In[1].DType.IsHalf() {
			return lw.halfMatmul(s)
		}
		return matmulOf(s, lw.threads, gemm32)
	case tensor.F64:
		return matmulOf(s, lw.threads, gemm64)
	case tensor.I32:
		return matmulOf(s, lw.threads, gemmI32)
	case tensor.I64:
		return matmulOf(s, lw.threads, gemmI64)
	}
	return matmulOf(s, lw.threads, gemmU8)
}

func matmulOf[T kernel.Number](s *compile.Step, threads int, mul product[T]) func(r *run) error {
	a, b := s.In[0], s.In[1]
	la, lb, lo := len(a.Shape), len(b.Shape), len(s.Out.Shape)
	m, k, n := a.Shape[la-2], a.Shape[la-1], b.Shape[lb-1]
	batch := s.Out.Shape[:lo-2]
	walk := newNest(batch, s.Out.Strides[:lo-2], batchStrides(a, batch), batchStrides(b, batch))
	empty := s.Out.Shape.Elems() == 0
	if last := len(walk.dims) - 1; walk.strides[2][last] == 0 && walk.dims[last] > 1 && (m == 1 && walk.strides[1][last] >= 0 || walk.strides[1][last] == a.Strides[la-2]*m) {
		// One b for all matrices, with one a after the other: more rows of one product.
		if m == 1 {
			a.Strides = append(slices.Clone(a.Strides[:la-2]), walk.strides[1][last], a.Strides[la-1])
		}
		m *= walk.dims[last]
		walk.dims[last] = 1
	} else {
		// the odometer leaves the innermost dim to the caller: here the product itself
		walk.dims = append(walk.dims, 1)
		for i := range walk.strides {
			walk.strides[i] = append(walk.strides[i], 0)
		}
	}
	return func(r *run) error {
		if empty {
			return nil
		}
		c := slice[T](r.bufs[s.Out.Buf])
		if k == 0 {
			if r.part == 0 {
				clear(c)
			}
			return nil
		}
		x, y := slice[T](r.bufs[a.Buf]), slice[T](r.bufs[b.Buf])
		odo := odometer{n: &walk}
		i0, i1, j0, j1 := 0, m, 0, n
		if len(walk.dims) > 1 && walk.dims[0] >= threads { // whole products
			var any bool
			if odo, any = walk.share(r); !any {
				return nil
			}
		} else if i0, i1, j0, j1 = kernel.Split(m, n, r.parts, r.part); i0 == i1 || j0 == j1 {
			// a rectangle of each
			return nil
		}
		rs, cs := a.Strides[la-2], b.Strides[lb-1]
		for {
			mul(r, i1-i0, j1-j0, k,
				kernel.Matrix[T]{Data: x[a.Off+odo.off[1]+i0*rs:], RS: rs, CS: a.Strides[la-1]},
				kernel.Matrix[T]{Data: y[b.Off+odo.off[2]+j0*cs:], RS: b.Strides[lb-2], CS: cs},
				false, c[odo.off[0]+i0*n+j0:], n)
			if r.stopped() || !odo.next() {
				return nil
			}
		}
	}
}

// batchStrides returns an operand's strides along the broadcast dims before the last two.
func batchStrides(o compile.Operand, batch tensor.Shape) []int {
	n := len(o.Shape) - 2
	return compile.Operand{Shape: o.Shape[:n], Strides: o.Strides[:n]}.Broadcast(batch)
}
