package ptx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// vectorBytes is the most bytes of one load or store.
const vectorBytes = 16

// access is how a kernel over n elements in order reads an operand of the same shape.
type access struct {
	o       compile.Operand
	dims    []int // of the nest, innermost last, joined where strides allow it
	strides []int // in elements
}

// newAccess returns the access to an operand with strides for shape.
func newAccess(o compile.Operand, shape, strides []int) *access {
	a := &access{o: o}
	for i, n := range shape {
		last := len(a.dims) - 1
		switch {
		case n == 1:
		case last >= 0 && a.strides[last] == strides[i]*n:
			a.dims[last] *= n
			a.strides[last] = strides[i]
		default:
			a.dims, a.strides = append(a.dims, n), append(a.strides, strides[i])
		}
	}
	return a
}

// single reports whether all elements are one.
func (a *access) single() bool {
	return !slices.ContainsFunc(a.strides, func(s int) bool { return s != 0 })
}

// vectors reports whether four consecutive elements lie in one row of the nest.
func (a *access) vectors() bool { return a.single() || a.dims[len(a.dims)-1]%4 == 0 }

// wide reports whether four elements are more bytes than a load has.
func (a *access) wide() bool { return !a.single() && 4*a.o.DType.Size() > vectorBytes }

// aligned reports whether four consecutive elements, of which the first has a number that
// is a multiple of four, lie one after another from a multiple of four on.
func (a *access) aligned() bool {
	last := len(a.strides) - 1
	return a.strides[last] == 1 && a.o.Off%4 == 0 && !slices.ContainsFunc(a.strides[:last], func(s int) bool { return s%4 != 0 })
}

// fits reports whether products of places and strides in bytes have 32-bit factors.
func (a *access) fits() bool {
	return !slices.ContainsFunc(a.strides, func(s int) bool { return max(s, -s) > math.MaxInt32/16 })
}

// address adds the address of element i, base being that of element 0.
func (w *writer) address(a *access, base, i reg) reg {
	size := a.o.DType.Size()
	at := base
	for k := len(a.dims) - 1; k >= 0; k-- {
		place := i
		if k > 0 {
			n := whole(a.dims[k])
			q := w.op(b32, "div.u32", i, n)
			place = w.op(b32, "sub.u32", i, w.op(b32, "mul.lo.u32", q, n))
			i = q
		}
		if a.strides[k] != 0 {
			at = w.op(b64, "mad.wide.s32", place, whole(a.strides[k]*size), at)
		}
	}
	return at
}

// load adds loads of n consecutive elements of a, of which the first is element i.
func (w *writer) load(a *access, base, i reg, n int) []reg {
	size, f := a.o.DType.Size(), forms[a.o.DType]
	one := func(at reg, off int) reg {
		return w.op(f.class, "ld.global."+f.memory, reg(fmt.Sprintf("[%s+%d]", at, off)))
	}
	if a.single() {
		return slices.Repeat([]reg{one(base, 0)}, n)
	}
	at := w.address(a, base, i)
	if n > 1 && a.aligned() {
		return w.vector("ld", a, at, w.fresh(f.class, n))
	}
	var all []reg
	for j := range n {
		all = append(all, one(at, j*a.strides[len(a.strides)-1]*size))
	}
	return all
}

// store adds stores of consecutive elements, of which the first is element i.
func (w *writer) store(a *access, base, i reg, values []reg) {
	size, f := a.o.DType.Size(), forms[a.o.DType]
	if a.single() { // one element
		w.line("st.global.%s [%s], %s", f.memory, base, values[0])
		return
	}
	at := w.address(a, base, i)
	if len(values) > 1 && a.aligned() {
		w.vector("st", a, at, values)
		return
	}
	for j, v := range values {
		w.line("st.global.%s [%s+%d], %s", f.memory, at, j*a.strides[len(a.strides)-1]*size, v)
	}
}

// fresh returns n new registers.
func (w *writer) fresh(class class, n int) (out []reg) {
	for range n {
		out = append(out, w.new(class))
	}
	return out
}

// vector adds a load or store of two or four elements, vectorBytes at most, and returns
// values.
func (w *writer) vector(name string, a *access, at reg, values []reg) []reg {
	f := forms[a.o.DType]
	var list strings.Builder
	for i, v := range values {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(string(v))
	}
	if name == "ld" {
		w.line("ld.global.v%d.%s {%s}, [%s+0]", len(values), f.memory, list.String(), at)
	} else {
		w.line("st.global.v%d.%s [%s+0], {%s}", len(values), f.memory, at, list.String())
	}
	return values
}
