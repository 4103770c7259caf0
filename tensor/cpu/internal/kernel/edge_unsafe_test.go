package kernel

import (
	"math/rand/v2"
	"runtime/debug"
	"syscall"
	"testing"
	"unsafe"
)

// edge is memory that ends where the next byte cannot be read. A kernel that reads too
// far faults here, as it might at the end of a mapped tensor.
type edge []float32

func newEdge(t *testing.T) edge {
	t.Helper()
	page := syscall.Getpagesize()
	const pages = 64
	mem, err := syscall.Mmap(-1, 0, (pages+1)*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mprotect(mem[pages*page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), pages*page/4)
}

// last copies x to the very end of the edge and returns the copy.
func (e edge) last(x []float32) []float32 {
	y := e[len(e)-len(x):]
	copy(y, x)
	return y
}

// doubles returns the edge as float64.
func (e edge) doubles() []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(&e[0])), len(e)/2)
}

// edgeOf returns an edge of other elements.
func edgeOf[T any](t *testing.T) []T {
	e := newEdge(t)
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(&e[0])), 4*len(e)/int(unsafe.Sizeof(v)))
}

// faultless reports a fault in f as a test failure.
func faultless(t *testing.T, what string, f func()) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if err := recover(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}()
	f()
}

func TestEdgeElementwise(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		var mem [4]edge
		for i := range mem {
			mem[i] = newEdge(t)
		}
		for _, e := range elementwises() {
			for n := range 70 {
				var in [3][]float32
				for i := range in {
					in[i] = mem[i][len(mem[i])-n:]
				}
				faultless(t, e.name, func() { e.run(k, mem[3][len(mem[3])-n:], in, 1) })
			}
		}
	})
}

func TestEdgeReductions(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		mem := newEdge(t)
		for n := range 70 {
			x := mem[len(mem)-n:]
			for name, f := range map[string]func(){
				"Sum": func() { k.Sum(x) }, "RowMax": func() { k.RowMax(x) }, "RowMin": func() { k.RowMin(x) },
				"Dot": func() { k.Dot(x, x) }, "CrossEntropy": func() { k.CrossEntropy(nil, mem[len(mem)-n-1:], n, 1) }, "Softmax": func() { k.Softmax(x, x, 1) },
				"LayerNorm": func() { k.LayerNorm(x, x, x, x, 1) }, "LayerNormGrad": func() { k.LayerNormGrad(x, x, x, x, x, x, 0, 1) },
				"RMSNormGrad": func() { k.RMSNormGrad(x, nil, x, nil, x, 1) },
			} {
				faultless(t, name, f)
			}
		}
	})
}

func TestEdgeGemm(t *testing.T) {
	each(t, func(t *testing.T, k *Table[float32], r *rand.Rand) {
		a, b, c := newEdge(t), newEdge(t), newEdge(t)
		for layoutA := range 3 {
			for layoutB := range 3 {
				for range 60 {
					p := newProblem(r, 1+r.IntN(40), 1+r.IntN(70), 1+r.IntN(50), layoutA, layoutB)
					if r.IntN(4) == 0 {
						// a is packed
						p = newProblem(r, 15+r.IntN(40), 130, 90+r.IntN(30), layoutA, layoutB)
					}
					p.a.Data, p.b.Data, p.c.v = a.last(p.a.Data), b.last(p.b.Data), c.last(p.c.v)
					faultless(t, p.String(), func() {
						k.Gemm(p.m, p.n, p.k, p.alpha, p.a, p.b, p.accumulate, p.c.v, p.ldc, p.scratch.v, nil)
					})
				}
			}
		}
	})
}
