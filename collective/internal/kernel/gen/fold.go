package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	header = 24 // bytes of a slice header; its first word is the address
	unroll = 4  // vectors a round
)

// kernel is one fold: from sources of one element type to destinations of another, or the
// same.
type kernel struct {
	o        operation
	from, to elem
}

func (k kernel) name(s isa) string {
	if k.from == k.to {
		return k.o.verb + k.from.name + s.name
	}
	return k.o.verb + k.from.name + "To" + k.to.name + s.name
}

// kernels returns all kernels of a set. And, or and xor need no type other than bytes.
// Where an instruction rounds to bf16, only the kernels that are split use it.
func (s isa) kernels() (all []kernel) {
	if s.brain {
		for _, o := range []operation{sum, prod, low, high} {
			all = append(all, kernel{o, bf16, bf16})
		}
		return all
	}
	for _, o := range []operation{sum, prod, low, high} {
		for _, e := range []elem{f64, f32, f16, bf16, i64, i32, u8} {
			all = append(all, kernel{o, e, e})
			if e.size == 2 {
				all = append(all, kernel{o, e, f32}, kernel{o, f32, e})
			}
		}
	}
	for _, o := range []operation{and, or, xor} {
		all = append(all, kernel{o, u8, u8})
	}
	return all
}

// split reports whether the elements of even and of odd numbers are folded apart.
func (k kernel) split() bool { return k.from == bf16 && k.to == bf16 }

// lanes returns the elements that are folded at a time.
func (k kernel) lanes(s isa) int {
	if k.split() {
		return s.bytes / k.from.size
	}
	return s.bytes / k.from.folded()
}

func folds(s isa) {
	if s.brain {
		interleave()
	}
	for _, k := range s.kernels() {
		k.write(s)
	}
}

// write writes a kernel: rounds of several vectors, then of one, then, with masks, of the
// rest. In AVX2 the caller does the rest. Sums of two come first.
func (k kernel) write(s isa) {
	TEXT(k.name(s), NOSPLIT, "func(from, to int, dsts, srcs [][]byte, scale float64)")
	Pragma("noescape")
	scaled, rest := "x", ""
	if k.from.float > 0 {
		scaled = "x * scale"
	}
	if !s.wide {
		rest = fmt.Sprintf("\n\nIt does whole vectors of %d elements only.", k.lanes(s))
	}
	Doc(k.name(s)+" is", "", strings.ReplaceAll(fmt.Sprintf(`	for i := from; i < to; i++ {
		x := srcs[0][i]
		for _, s := range srcs[1:] {
			y := s[i]
			x = %s
		}
		for _, d := range dsts {
			d[i] = %s
		}
	}`, k.o.doc, scaled)+rest, "\n", "\n// "))
	w := walk{kernel: k, isa: s}
	w.at, w.left = GP64(), GP64()
	Load(Param("from"), w.at)
	Load(Param("to"), w.left)
	SUBQ(w.at, w.left)
	w.srcs, w.nsrcs = GP64(), GP64()
	Load(Param("srcs").Base(), w.srcs)
	Load(Param("srcs").Len(), w.nsrcs)
	w.dsts, w.ndsts = GP64(), GP64()
	Load(Param("dsts").Base(), w.dsts)
	Load(Param("dsts").Len(), w.ndsts)
	w.scale = s.scale(k.from)
	// those take longer to fold than to load: an unneeded multiplication would show
	if k.from.size == 2 {
		at, err := Param("scale").Resolve()
		if err != nil {
			panic(err)
		}
		w.other = GP64()
		MOVQ(at.Addr, w.other)
		one := GP64()
		MOVQ(U64(math.Float64bits(1)), one)
		SUBQ(one, w.other)
	}
	w.c = k.to.rounding(s)
	w.lanes = k.lanes(s)
	if k.split() {
		w.split, w.upper = true, s.word(0xffff0000)
		if s.wide {
			m := GP32()
			w.odds = K()
			MOVL(U32(0xaaaaaaaa), m)
			KMOVD(m, w.odds)
		}
	}
	if s.brain {
		w.order = s.vec()
		VMOVUPS(interleaved, w.order)
	}
	if k.ofTwo() {
		w.two()
	}
	if w.split && !s.wide { // twice the registers, of which there are 16
		w.rounds("several", "one", unroll/2)
	} else {
		w.rounds("several", "one", unroll)
	}
	w.rounds("one", "last", 1)
	Label("last")
	if s.wide {
		TESTQ(w.left, w.left)
		JLE(LabelRef("done"))
		w.masked()
		Label("done")
	}
	VZEROUPPER()
	RET()
	for _, write := range w.seldom {
		write()
	}
}

// scale loads the factor into all lanes; integers have none.
func (s isa) scale(e elem) vreg {
	if e.float == 0 {
		return nil
	}
	v := s.vec()
	a, err := Param("scale").Resolve()
	if err != nil {
		panic(err)
	}
	if e.float == 8 {
		VBROADCASTSD(a.Addr, v)
		return v
	}
	x := XMM()
	VMOVSD(a.Addr, x)
	VCVTSD2SS(x, x, x)
	VBROADCASTSS(x, v)
	return v
}

// walk writes a kernel.
type walk struct {
	kernel
	isa
	at, left    reg.GPVirtual // element, and how many there are from it on
	srcs, nsrcs reg.GPVirtual
	dsts, ndsts reg.GPVirtual
	scale       vreg
	other       reg.GPVirtual // 0 if the factor is 1; nil where it is not checked
	c           rounding
	lanes       int // elements of a vector in memory
	// bf16 to bf16: elements of even and of odd numbers are folded apart
	split bool
	upper vreg              // the upper half of every 32 bits, if split
	odds  reg.OpmaskVirtual // of AVX-512: the upper 16 of every 32 bits, if split
	order vreg              // of AVX512_BF16: the order of 16-bit elements
	// of AVX512_BF16: the code of rare jumps, written after the rest
	seldom []func()
}

// rounds writes a loop over the given number of vectors at a time, as long as there are
// enough.
func (w *walk) rounds(label, next string, vectors int) {
	n := uint32(vectors * w.lanes)
	Label(label)
	CMPQ(w.left, U32(n))
	JL(LabelRef(next))
	w.round(label, vectors, nil)
	ADDQ(U32(n), w.at)
	SUBQ(U32(n), w.left)
	JMP(LabelRef(label))
}

// masked writes the last round, of less than a vector.
func (w *walk) masked() {
	m, k := GP64(), K()
	MOVQ(I32(-1), m)
	BZHIQ(w.left, m, m)
	KMOVQ(m, k)
	w.round("last", 1, &k)
}

// round folds the given number of vectors from w.at on.
func (w *walk) round(label string, vectors int, k *reg.OpmaskVirtual) {
	place := func(p reg.Register, e elem, u int) Mem {
		return Mem{Base: p, Index: w.at, Scale: uint8(e.size), Disp: u * w.lanes * e.size}
	}
	p, list, count := GP64(), GP64(), GP64()
	acc := make([][]vreg, vectors)
	MOVQ(Mem{Base: w.srcs}, p)
	for u := range acc {
		acc[u] = w.load(place(p, w.from, u), k, w.sums(u))
	}
	MOVQ(w.nsrcs, count)
	MOVQ(w.srcs, list)
	JMP(LabelRef(label + "_sources"))
	Label(label + "_source")
	ADDQ(U8(header), list)
	MOVQ(Mem{Base: list}, p)
	for u := range acc {
		w.add(acc[u], place(p, w.from, u), k)
	}
	Label(label + "_sources")
	DECQ(count)
	JNZ(LabelRef(label + "_source"))
	out := w.result(label, acc)
	MOVQ(w.ndsts, count)
	MOVQ(w.dsts, list)
	Label(label + "_destination")
	MOVQ(Mem{Base: list}, p)
	for u, v := range out {
		w.to.store(v, place(p, w.to, u), k)
	}
	ADDQ(U8(header), list)
	DECQ(count)
	JNZ(LabelRef(label + "_destination"))
}

// add folds the vector at m into x.
func (w *walk) add(x []vreg, m Mem, k *reg.OpmaskVirtual) {
	if ins := w.o.single(w.isa, w.from); ins != nil && k == nil && w.from.folded() == w.from.size {
		ins(m, x[0], x[0])
		return
	}
	for i, y := range w.load(m, k, w.fresh()) {
		w.o.combine(w.isa, w.from, x[i], y)
	}
}

// result scales and narrows the accumulators.
func (w *walk) result(label string, acc [][]vreg) []vreg {
	if w.other != nil {
		TESTQ(w.other, w.other)
		JZ(LabelRef(label + "_whole"))
	}
	for _, v := range slices.Concat(acc...) {
		switch w.from.float {
		case 4:
			VMULPS(w.scale, v, v)
		case 8:
			VMULPD(w.scale, v, v)
		}
	}
	if w.other != nil {
		Label(label + "_whole")
	}
	if w.brain {
		return w.brains(label, acc)
	}
	if w.split {
		w.quiet(label+"_numbers", acc)
	}
	out := make([]vreg, len(acc))
	for u, v := range acc {
		if w.split {
			out[u] = w.join(v[0], v[1])
		} else {
			out[u] = w.to.narrow(w.isa, v[0], w.c)
		}
	}
	return out
}

// fresh returns registers for a vector of the source.
func (w *walk) fresh() []vreg {
	if w.split {
		return []vreg{w.vec(), w.vec()}
	}
	return []vreg{w.vec()}
}

// sums returns the accumulators of the u-th vector.
func (w *walk) sums(u int) []vreg {
	if w.brain {
		return []vreg{brainRegisters[2*u], brainRegisters[2*u+1]}
	}
	return w.fresh()
}

// load reads a vector of the source into registers: two if it is split.
func (w *walk) load(m Mem, k *reg.OpmaskVirtual, into []vreg) []vreg {
	if !w.split {
		w.from.load(m, k, into[0])
		return into
	}
	v := w.vec() // one load: two of the same line take longer
	if k == nil {
		VMOVUPS(m, v)
	} else {
		VMOVDQU16_Z(m, *k, v)
	}
	VPSLLD(U8(16), v, into[0])
	if w.wide {
		VPANDD(w.upper, v, into[1])
	} else {
		VPAND(w.upper, v, into[1])
	}
	return into
}

// dispatcher returns the Go code that calls the kernels. It calls them by name, because
// the arguments of a function value would escape to the heap.
func dispatcher() string {
	var b strings.Builder
	b.WriteString(`
package kernel

import "github.com/ringside-go/ringside/collective/element"

// key names a kernel.
func key(op element.Reduction, c conversion) int { return int(op)<<16 | int(c.from)<<8 | int(c.to) }
`)
	for _, s := range []isa{avx512, avx512BF16, avx2} {
		fmt.Fprintf(&b, "\n// call%s calls the kernel, and reports whether there is one.\n", s.name)
		fmt.Fprintf(&b, "func call%s(key, from, to int, dsts, srcs [][]byte, scale float64) bool {\n\tswitch key {\n", s.name)
		for _, k := range s.kernels() {
			fmt.Fprintf(&b, "\tcase int(element.%s)<<16 | int(element.%s)<<8 | int(element.%s):\n\t\t%s(from, to, dsts, srcs, scale)\n",
				k.o.name, k.from.name, k.to.name, k.name(s))
		}
		b.WriteString("\tdefault:\n\t\treturn false\n\t}\n\treturn true\n}\n")
	}
	return b.String()
}
