package cublaslt

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// square is a product that the misuse table starts from: 8 by 64 times 64 by 8.
var square = blas.Product{
	Type: blas.F32, M: 8, N: 8, K: 64, Count: 1,
	A: blas.Matrix{Lead: 64, Align: 16}, B: blas.Matrix{Lead: 8, Align: 16},
}

// memory returns device memory of zeros.
func (g *gpu) memory(t *testing.T, n int) driver.DevicePtr {
	t.Helper()
	p, err := g.Alloc(uint64(n))
	if err == nil {
		err = g.CopyHtoD(p, make([]byte, n))
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPlans checks which algorithms are taken: sums of parts with a workspace for them,
// one sum without, never one in place.
func TestPlans(t *testing.T) {
	onGPU(t, func(g *gpu) {
		for workspace, splits := range map[int]uint32{0: 1, 511: 1, 512: 2, 1 << 20: 2} {
			p, err := g.Plan(square, workspace)
			if err != nil {
				t.Fatal(err)
			}
			if x := p.(*plan); x.splits != splits || splits == 2 && (x.scheme != schemeComputeType || p.Workspace() != 512) || splits == 1 && p.Workspace() != 0 {
				t.Errorf("with a workspace of %d: %d parts, scheme %d, %d bytes; expected %d parts", workspace, x.splits, x.scheme, p.Workspace(), splits)
			}
			if again, err := g.Plan(square, workspace); err != nil || again != p {
				t.Errorf("a second plan is %p, %v; expected the first", again, err)
			}
		}
	})
}

// TestUnsupported checks the products that are refused, and that nothing is left of them.
func TestUnsupported(t *testing.T) {
	onGPU(t, func(g *gpu) {
		for name, change := range map[string]func(p *blas.Product){
			"no rows":          func(p *blas.Product) { p.M = 0 },
			"too many rows":    func(p *blas.Product) { p.M = 1 << 31 },
			"overlapping rows": func(p *blas.Product) { p.A.Lead = 63 },
			"a negative step":  func(p *blas.Product) { p.Count, p.A.Step = 2, -1 },
			"an odd alignment": func(p *blas.Product) { p.A.Align = 12 },
			"half an element":  func(p *blas.Product) { p.A.Align = 2 },
			"no type":          func(p *blas.Product) { p.Type = 9 },
		} {
			p := square
			change(&p)
			if _, err := g.Plan(p, 0); !errors.Is(err, blas.ErrUnsupported) {
				t.Errorf("%s: %v, expected %v", name, err, blas.ErrUnsupported)
			}
		}
	})
}

// TestProductMisuse has one thing wrong with a product at a time, each with its code.
func TestProductMisuse(t *testing.T) {
	onGPU(t, func(g *gpu) {
		p, err := g.Plan(square, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		other := square
		other.N, other.B.Lead = 4, 4
		q, err := g.Plan(other, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		x, y := p.(*plan), q.(*plan)
		ab, d, workspace := g.memory(t, 8*64*4), g.memory(t, 8*8*4), g.memory(t, 1024)
		// arguments are those of cublasLtMatmul.
		type arguments struct {
			handle, desc, alpha, a, al, b, bl, beta, c, cl, d, dl, algo, workspace, n uintptr
		}
		one, half, algo := &x.one, new([8]byte), x.algo
		*(*float32)(unsafe.Pointer(half)) = 0.5
		right := arguments{g.handle.handle, x.desc, uintptr(unsafe.Pointer(one)), uintptr(ab), x.a, uintptr(ab), x.b, uintptr(unsafe.Pointer(&x.zero)),
			uintptr(d), x.d, uintptr(d), x.d, uintptr(unsafe.Pointer(&algo)), uintptr(workspace), 1024}
		for _, c := range []struct {
			name   string
			change func(a *arguments)
			want   Status
		}{
			{"nothing", func(*arguments) {}, Success},
			{"no handle", func(a *arguments) { a.handle = 0 }, NotInitialized},
			{"no description", func(a *arguments) { a.desc = 0 }, InvalidValue},
			{"a layout as the description", func(a *arguments) { a.desc = x.a }, InvalidValue},
			{"no layout", func(a *arguments) { a.bl = 0 }, InvalidValue},
			{"layouts exchanged", func(a *arguments) { a.al, a.bl = a.bl, a.al }, InvalidValue},
			{"the result of another product", func(a *arguments) { a.dl, a.cl = y.d, y.d }, InvalidValue},
			{"no factor", func(a *arguments) { a.alpha = 0 }, InvalidValue},
			{"no operand", func(a *arguments) { a.a = 0 }, InvalidValue},
			{"an operand at a wrong multiple", func(a *arguments) { a.a += 4 }, NotSupported},
			{"a result at a wrong multiple", func(a *arguments) { a.c += 8; a.d += 8 }, NotSupported},
			{"a result over an operand", func(a *arguments) { a.c, a.d = a.a, a.a }, InvalidValue},
			{"an operand that ends in no memory", func(a *arguments) { a.b += 1024 }, ExecutionFailed},
			{"a result that is added to", func(a *arguments) { a.beta = uintptr(unsafe.Pointer(half)) }, NotSupported},
			{"no algorithm", func(a *arguments) { a.algo = 0 }, NotSupported},
			{"the algorithm of another product", func(a *arguments) { a.algo = uintptr(unsafe.Pointer(&y.algo)) }, InvalidValue},
			{"too small a workspace", func(a *arguments) { a.n = 511 }, InvalidValue},
			{"no workspace", func(a *arguments) { a.workspace = 0 }, InvalidValue},
			{"a workspace at a wrong multiple", func(a *arguments) { a.workspace += 16 }, InvalidValue},
			{"a workspace that is no memory", func(a *arguments) { a.workspace = 1 << 20 }, ExecutionFailed},
		} {
			a := right
			c.change(&a)
			err := g.call(matmul, a.handle, a.desc, a.alpha, a.a, a.al, a.b, a.bl, a.beta, a.c, a.cl, a.d, a.dl, a.algo, a.workspace, a.n, uintptr(g.stream))
			if c.want == Success && err != nil || c.want != Success && !errors.Is(err, c.want) {
				t.Errorf("%s: %v, expected %v", c.name, err, c.want)
			}
		}
		if err := g.StreamSynchronize(g.stream); err != nil {
			t.Error(err)
		}
	})
}

// TestSearchMisuse has one thing wrong with a question for algorithms at a time.
func TestSearchMisuse(t *testing.T) {
	onGPU(t, func(g *gpu) {
		for _, c := range []struct {
			name   string
			change func(x *plan, prefer uintptr) error
			want   Status
		}{
			{"nothing", func(*plan, uintptr) error { return nil }, Success},
			{"an order by rows", func(x *plan, _ uintptr) error { return set[int32](g.Library, layoutSet, x.a, 1, 1) }, NotSupported},
			{"a lead below the rows", func(x *plan, _ uintptr) error { return set[int64](g.Library, layoutSet, x.b, 4, 63) }, InvalidValue},
			{"a batch of one operand", func(x *plan, _ uintptr) error { return set[int32](g.Library, layoutSet, x.a, layoutBatch, 2) }, InvalidValue},
			{"no batch", func(x *plan, _ uintptr) error { return set[int32](g.Library, layoutSet, x.d, layoutBatch, 0) }, InvalidValue},
			{"a transposition that is none", func(x *plan, _ uintptr) error { return set[int32](g.Library, descSet, x.desc, descTransA, 7) }, InvalidValue},
			{"factors of the device", func(x *plan, _ uintptr) error { return set[int32](g.Library, descSet, x.desc, 2, 1) }, NotSupported},
			{"a compute type that is none", func(x *plan, _ uintptr) error { return set[int32](g.Library, descSet, x.desc, 0, 99) }, NotSupported},
			{"operands of two types", func(x *plan, _ uintptr) error { return set[int32](g.Library, layoutSet, x.a, 0, r16F) }, NotSupported},
			{"an epilogue", func(x *plan, _ uintptr) error { return set[uint32](g.Library, descSet, x.desc, 7, 2) }, NotSupported},
			{"a bias", func(x *plan, _ uintptr) error { return set[uint64](g.Library, descSet, x.desc, 8, 4096) }, NotSupported},
			{"a scheme that is none", func(_ *plan, p uintptr) error { return set[uint32](g.Library, preferenceSet, p, preferReduction, 8) }, InvalidValue},
			{"an alignment that is none", func(_ *plan, p uintptr) error { return set[uint32](g.Library, preferenceSet, p, preferAlignD, 3) }, InvalidValue},
		} {
			x := &plan{}
			if err := g.describe(x, &square, r32F, r32F, compute32F); err != nil {
				t.Fatal(err)
			}
			prefer, err := g.preference(&square, 0)
			if err == nil {
				err = c.change(x, prefer)
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			results, count := new([asked]found), new(int32)
			err = g.call(heuristic, g.handle.handle, x.desc, x.a, x.b, x.d, x.d, prefer, asked, uintptr(unsafe.Pointer(results)), uintptr(unsafe.Pointer(count)))
			if c.want == Success && (err != nil || *count != 1) || c.want != Success && !errors.Is(err, c.want) {
				t.Errorf("%s: %v, expected %v", c.name, err, c.want)
			}
		}
	})
}

// TestUnwritten checks that an operand which nothing wrote is found.
func TestUnwritten(t *testing.T) {
	onGPU(t, func(g *gpu) {
		p, err := g.Plan(square, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, err := g.Alloc(8 * 64 * 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Run(p, a, g.memory(t, 8*64*4), g.memory(t, 8*8*4), 0, g.stream); err != nil {
			t.Fatal(err)
		}
		if err := g.StreamSynchronize(g.stream); !errors.Is(err, driver.LaunchFailed) {
			t.Errorf("%v, expected %v", err, driver.LaunchFailed)
		}
		g.handle.handle = 0 // the context is lost, with the library's memory
	})
}
