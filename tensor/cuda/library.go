package cuda

import (
	"errors"
	"math"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda/blas"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// maxWorkspace is the most memory that a product of a library gets for itself: what
// NVIDIA's documentation advises for Hopper.
const maxWorkspace = 32 << 20

// workspaceAlign is what the address of a workspace is a multiple of.
const workspaceAlign = 256

// maxOperandAlign is the most that is promised of operands' addresses: no algorithm loads
// more than 16 bytes at once. Blocks and temporaries begin at multiples of 64.
const maxOperandAlign = 16

// librarySpeed is about how many products a library adds up in the time of an element of
// an elementwise kernel, by type: f32 and f64 in plain units, the others in tensor cores.
var librarySpeed = map[blas.Type]int{blas.F32: 64, blas.F64: 32, blas.F16: 1024, blas.BF16: 1024}

// longest bounds the work of a product that a library computes, in units of maxLaunch.
// Larger ones run on the host.
const longest = 32

// products are those of a library on a device.
type products struct {
	mem     *memory.Device
	library blas.Library
	handle  blas.Handle // nil: there is no library
	err     error       // why there is none
	tf32    bool

	multiprocessors int
}

// open prepares for products of a library, which may be nil.
func (p *products) open(l blas.Library, mem *memory.Device) {
	if l == nil {
		return
	}
	p.mem, p.library = mem, l
	if p.multiprocessors, p.err = mem.Multiprocessors(); p.err != nil {
		return
	}
	p.err = mem.Do(func() (err error) { p.handle, err = l.Open(); return err })
}

// suffix returns what the name of a device says of its library.
func (p *products) suffix() string {
	if p.handle == nil {
		return ""
	}
	return " " + p.library.Info().Name
}

// close gives the handle back.
func (p *products) close() error {
	if p.handle == nil {
		return nil
	}
	h := p.handle
	p.handle = nil
	return p.mem.Do(h.Close)
}

// product is a product of a library, with its operands.
type product struct {
	handle    blas.Handle
	plan      blas.Plan
	a, b, out compile.Operand
	workspace compile.Operand // a little more than is asked for, see workspaceAlign
}

// byLibrary adds out = a b to a kernel as a product of the library, and reports whether
// it did. Where it did not the kernel is as before.
func byLibrary(k *kernel, out, a, b compile.Operand) bool {
	if k.products == nil || k.products.handle == nil || !out.Dense {
		return false
	}
	launches, scratch, host := len(k.launches), k.scratch, k.host
	if multiplied(k, out, a, b) && k.host == host {
		return true
	}
	k.launches, k.scratch, k.host = k.launches[:launches], scratch, host
	return false
}

// libraryType returns the type in which the library takes the operands of a product.
// Halves are taken as they are stored if both are of one type.
func libraryType(out, a, b tensor.DType) (blas.Type, tensor.DType) {
	switch {
	case out == tensor.F64:
		return blas.F64, tensor.F64
	case out != tensor.F32:
		return 0, out
	case a == b && a == tensor.F16:
		return blas.F16, a
	case a == b && a == tensor.BF16:
		return blas.BF16, a
	}
	return blas.F32, tensor.F32
}

// multiplied does the work of byLibrary.
func multiplied(k *kernel, out, a, b compile.Operand) bool {
	kind, d := libraryType(out.DType, a.DType, b.DType)
	if kind == 0 {
		return false
	}
	last := len(out.Shape) - 2
	batch := out.Shape[:last]
	p := blas.Product{Type: kind, M: out.Shape[last], N: out.Shape[last+1], K: a.Shape[len(a.Shape)-1], Count: batch.Elems(), TF32: k.products.tf32 && kind == blas.F32}
	var sides [2]matrices
	for i, o := range []compile.Operand{a, b} {
		if o.DType != d || !byLines(o) {
			t := k.temp(d, o.Shape)
			k.copy(t, o)
			o = t
		}
		sides[i] = matricesOf(o, batch)
	}
	steps := stepsOf(k, &sides, batch)
	p.A, p.B = lines(&sides[0], steps[0]), lines(&sides[1], steps[1])
	if p.Count > 1 && p.B.Step == 0 && !p.A.Transposed && p.A.Step == p.M*p.A.Lead && p.M*p.Count <= math.MaxInt32 {
		// One b for all: more rows of one product.
		p.M, p.Count, p.A.Step = p.M*p.Count, 1, 0
	}
	if p.Count == 1 {
		p.A.Step, p.B.Step = 0, 0
	}
	work := float64(p.M) * float64(p.N) / float64(librarySpeed[kind]) * float64(p.K) * float64(p.Count)
	if work > longest*maxLaunch || out.Off*out.DType.Size()%maxOperandAlign != 0 {
		return false
	}
	x := &product{handle: k.products.handle, a: sides[0].o, b: sides[1].o, out: out}
	err := k.products.mem.Do(func() (err error) { x.plan, err = x.handle.Plan(p, maxWorkspace); return err })
	if err != nil {
		if !errors.Is(err, blas.ErrUnsupported) {
			k.err = err
		}
		return false
	}
	if n := x.plan.Workspace(); n > 0 {
		x.workspace = k.temp(tensor.U8, tensor.Shape{n + workspaceAlign})
	}
	k.launches = append(k.launches, launch{product: x, work: int(min(work, maxLaunch))})
	return true
}

// byLines reports whether the matrices of o lie row by row or column by column.
func byLines(o compile.Operand) bool {
	n := len(o.Shape)
	rows, columns, row, column := o.Shape[n-2], o.Shape[n-1], o.Strides[n-2], o.Strides[n-1]
	return (columns == 1 || column == 1) && (rows == 1 || row >= columns) || (rows == 1 || row == 1) && (columns == 1 || column >= rows)
}

// lines returns how matrices lie that byLines is true of.
func lines(m *matrices, step int) blas.Matrix {
	n := len(m.o.Shape)
	rows, columns := m.o.Shape[n-2], m.o.Shape[n-1]
	out := blas.Matrix{Lead: m.row, Step: step, Align: maxOperandAlign}
	switch {
	case (columns == 1 || m.column == 1) && (rows == 1 || m.row >= columns):
		if rows == 1 {
			out.Lead = columns
		}
	default:
		out.Transposed, out.Lead = true, m.column
		if columns == 1 {
			out.Lead = rows
		}
	}
	if off := m.o.Off * m.o.DType.Size(); off != 0 {
		out.Align = min(out.Align, off&-off)
	}
	return out
}
