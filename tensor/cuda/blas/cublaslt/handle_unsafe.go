package cublaslt

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
)

// asked is how many algorithms the search is asked for. The first that may be used is.
const asked = 8

// handle is a blas.Handle.
type handle struct {
	*Library
	handle uintptr

	mu    sync.Mutex
	plans map[planKey]*plan
}

type planKey struct {
	product   blas.Product
	workspace int
}

// plan is a blas.Plan.
type plan struct {
	err            error // there is no algorithm for the product
	desc           uintptr
	a, b, d        uintptr // layouts, of the library's operands
	algo           algorithm
	workspace      uint64
	splits, scheme uint32
	one, zero      [8]byte // factors of the product and of the result before, in its type
}

// Workspace implements blas.Plan.
func (p *plan) Workspace() int { return int(p.workspace) }

// Open implements blas.Library.
func (l *Library) Open() (blas.Handle, error) {
	h, err := l.made(create)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.info.Name, err)
	}
	return &handle{Library: l, handle: h, plans: map[planKey]*plan{}}, nil
}

// Close implements blas.Handle.
func (h *handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	for _, p := range h.plans {
		err = errors.Join(err, p.free(h.Library))
	}
	clear(h.plans)
	return errors.Join(err, h.call(destroy, h.handle))
}

// free gives the descriptors of a plan back.
func (p *plan) free(l *Library) error {
	var err error
	if p.desc != 0 {
		err = l.call(descDestroy, p.desc)
	}
	for _, layout := range []uintptr{p.a, p.b, p.d} {
		if layout != 0 {
			err = errors.Join(err, l.call(layoutDestroy, layout))
		}
	}
	p.desc, p.a, p.b, p.d = 0, 0, 0, 0
	return err
}

// types returns the numbers of the types of a product's operands and result, and of what
// it is computed in.
func types(p *blas.Product) (in, out, compute int, ok bool) {
	switch p.Type {
	case blas.F32:
		if p.TF32 {
			return r32F, r32F, compute32FTF32, true
		}
		return r32F, r32F, compute32F, true
	case blas.F16:
		return r16F, r32F, compute32F, true
	case blas.BF16:
		return r16BF, r32F, compute32F, true
	case blas.F64:
		return r64F, r64F, compute64F, true
	}
	return 0, 0, 0, false
}

// fits reports whether a product is one that the library can be asked about: its sizes
// are numbers of 32 bits, and no two elements of a matrix are one.
func fits(p *blas.Product) bool {
	side := func(m *blas.Matrix, rows, columns int) bool {
		if m.Transposed {
			columns = rows
		}
		return m.Lead >= columns && m.Lead <= math.MaxInt32 && m.Step >= 0 && m.Align >= p.Type.Size() && m.Align&(m.Align-1) == 0
	}
	least, most := min(p.M, p.N, p.K, p.Count), max(p.M, p.N, p.K, p.Count)
	return least >= 1 && most <= math.MaxInt32 && side(&p.A, p.M, p.K) && side(&p.B, p.K, p.N)
}

// Plan implements blas.Handle.
func (h *handle) Plan(p blas.Product, workspace int) (blas.Plan, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := planKey{p, workspace}
	x := h.plans[key]
	if x == nil {
		x = &plan{}
		x.err = h.choose(x, &p, workspace)
		var e *Error
		if x.err != nil {
			if err := x.free(h.Library); err != nil {
				return nil, err
			}
			if errors.As(x.err, &e) && e.Status != NotSupported && e.Status != InvalidValue && e.Status != ArchMismatch {
				return nil, x.err // asked again next time
			}
		}
		h.plans[key] = x
	}
	if x.err != nil {
		return nil, fmt.Errorf("%w: %v", blas.ErrUnsupported, x.err)
	}
	return x, nil
}

// errNone is the error of a plan for a product without an algorithm.
var errNone = errors.New("none that sums in order")

// choose makes the descriptors of a product and finds its algorithm.
func (h *handle) choose(x *plan, p *blas.Product, workspace int) error {
	in, out, compute, ok := types(p)
	if !ok || !fits(p) {
		return errNone
	}
	if err := h.describe(x, p, in, out, compute); err != nil {
		return err
	}
	results, count := new([asked]found), new(int32)
	prefer, err := h.preference(p, workspace)
	if err != nil {
		return err
	}
	err = h.call(heuristic, h.handle, x.desc, x.a, x.b, x.d, x.d, prefer, asked, uintptr(unsafe.Pointer(results)), uintptr(unsafe.Pointer(count)))
	if e := h.call(preferenceDestroy, prefer); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	for i := range results[:max(0, min(*count, asked))] {
		if ok, err := h.take(x, &results[i], workspace); ok || err != nil {
			return err
		}
	}
	return errNone
}

// describe makes the descriptors. Matrices that lie row by row are asked for as their
// transposes: the library's first operand is B.
func (h *handle) describe(x *plan, p *blas.Product, in, out, compute int) error {
	scale := r32F
	if p.Type == blas.F64 {
		scale = r64F
		*(*float64)(unsafe.Pointer(&x.one)) = 1
	} else {
		*(*float32)(unsafe.Pointer(&x.one)) = 1
	}
	var err error
	if x.desc, err = h.made(descCreate, uintptr(compute), uintptr(scale)); err != nil {
		return err
	}
	if p.B.Transposed {
		err = set(h.Library, descSet, x.desc, descTransA, int32(opT))
	}
	if err == nil && p.A.Transposed {
		err = set(h.Library, descSet, x.desc, descTransB, int32(opT))
	}
	if err == nil {
		x.a, err = h.layout(in, p.K, p.N, p.Count, &p.B)
	}
	if err == nil {
		x.b, err = h.layout(in, p.M, p.K, p.Count, &p.A)
	}
	if err == nil {
		x.d, err = h.layout(out, p.M, p.N, p.Count, &blas.Matrix{Lead: p.N, Step: p.M * p.N})
	}
	return err
}

// layout makes the layout of matrices of so many rows and columns. It takes them by
// columns, which are what lies in a row.
func (h *handle) layout(kind, rows, columns, count int, m *blas.Matrix) (uintptr, error) {
	if m.Transposed {
		rows, columns = columns, rows
	}
	l, err := h.made(layoutCreate, uintptr(kind), uintptr(columns), uintptr(rows), uintptr(m.Lead))
	if err != nil || count == 1 {
		return l, err
	}
	err = set(h.Library, layoutSet, l, layoutBatch, int32(count))
	if err == nil {
		err = set(h.Library, layoutSet, l, layoutStep, int64(m.Step))
	}
	if err != nil {
		err = errors.Join(err, h.call(layoutDestroy, l))
		l = 0
	}
	return l, err
}

// resultAlign is what the addresses of results are multiples of.
const resultAlign = 16

// preference makes what the search goes by.
func (h *handle) preference(p *blas.Product, workspace int) (uintptr, error) {
	x, err := h.made(preferenceCreate)
	if err != nil {
		return 0, err
	}
	err = set(h.Library, preferenceSet, x, preferWorkspace, uint64(workspace))
	for _, v := range []struct{ attribute, value int }{
		{preferReduction, schemeComputeType},
		{preferAlignA, p.B.Align}, {preferAlignB, p.A.Align}, {preferAlignC, resultAlign}, {preferAlignD, resultAlign},
	} {
		if err == nil {
			err = set(h.Library, preferenceSet, x, v.attribute, uint32(v.value))
		}
	}
	if err != nil {
		err = errors.Join(err, h.call(preferenceDestroy, x))
	}
	return x, err
}

// take takes an algorithm that was found, if it may be used. It looks again at what the
// preference asked for.
func (h *handle) take(x *plan, f *found, workspace int) (bool, error) {
	if Status(f.state) != Success || f.workspace > uint64(workspace) {
		return false, nil
	}
	var err error
	if x.splits, err = ofAlgorithm(h.Library, &f.algo, algoSplits); err == nil {
		x.scheme, err = ofAlgorithm(h.Library, &f.algo, algoScheme)
	}
	if err != nil || x.splits > 1 && x.scheme != schemeComputeType {
		return false, err
	}
	x.algo, x.workspace = f.algo, f.workspace
	return true, nil
}

// Run implements blas.Handle.
func (h *handle) Run(q blas.Plan, a, b, d, workspace driver.DevicePtr, s driver.Stream) error {
	x := q.(*plan)
	return h.call(matmul, h.handle, x.desc, uintptr(unsafe.Pointer(&x.one)), uintptr(b), x.a, uintptr(a), x.b,
		uintptr(unsafe.Pointer(&x.zero)), uintptr(d), x.d, uintptr(d), x.d,
		uintptr(unsafe.Pointer(&x.algo)), uintptr(workspace), uintptr(x.workspace), uintptr(s))
}
