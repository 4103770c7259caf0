package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// avo writes assembly for amd64 alone, and Go's assembler for arm64 lacks most
// instructions of NEON on floats: this file encodes them, and gives them registers.

// neonWord is an instruction without its registers: the encoding of Arm's manual (ARM DDI
// 0487, C7.2), of vectors of four float32 or of 128 bits. The form for two float64 has
// one bit more.
type neonWord struct {
	name string
	word uint32
	bits bool // works on bits, so that float64 has no form of its own
}

// Instructions of a target and two sources.
var (
	fadd  = neonWord{"fadd", 0x4e20d400, false}
	fsub  = neonWord{"fsub", 0x4ea0d400, false}
	fmul  = neonWord{"fmul", 0x6e20dc00, false}
	fdiv  = neonWord{"fdiv", 0x6e20fc00, false}
	fmla  = neonWord{"fmla", 0x4e20cc00, false} // target += a*b, rounded once
	fmls  = neonWord{"fmls", 0x4ea0cc00, false} // target -= a*b
	fmax  = neonWord{"fmax", 0x4e20f400, false} // NaN if either is
	fmin  = neonWord{"fmin", 0x4ea0f400, false}
	fcmge = neonWord{"fcmge", 0x6e20e400, false}
	fcmgt = neonWord{"fcmgt", 0x6ea0e400, false}
	iadd  = neonWord{"add", 0x4ea08400, false}
	isub  = neonWord{"sub", 0x6ea08400, false}
	and   = neonWord{"and", 0x4e201c00, true}
	bic   = neonWord{"bic", 0x4e601c00, true} // a without the bits of b
	orr   = neonWord{"orr", 0x4ea01c00, true}
	// the bits of a where target's are set, else those of b
	bsl  = neonWord{"bsl", 0x6e601c00, true}
	trn1 = neonWord{"trn1", 0x4e802800, false}
	trn2 = neonWord{"trn2", 0x4e806800, false}
	// the upper half of a, and the lower one of b
	ext8 = neonWord{"ext8", 0x6e004000, true}
)

// Instructions of a target and one source.
var (
	fneg   = neonWord{"fneg", 0x6ea0f800, false}
	fabs   = neonWord{"fabs", 0x4ea0f800, false}
	fsqrt  = neonWord{"fsqrt", 0x6ea1f800, false}
	frintn = neonWord{"frintn", 0x4e218800, false} // to nearest even
	frintm = neonWord{"frintm", 0x4e219800, false} // down
	frintp = neonWord{"frintp", 0x4ea18800, false} // up
	fcvtns = neonWord{"fcvtns", 0x4e21a800, false} // to integers
	// the numbers of each half exchanged, of float32 alone
	rev64 = neonWord{"rev64", 0x4ea00800, true}
)

// wide is the bit that makes an instruction of float32 one of float64.
const wide = 1 << 22

// doubled is the same for the integers and the lanes of trn1 and trn2, which have that
// bit in any case, or a size in bits 22 and 23.
var doubled = map[string]uint32{"add": 0x4ee08400, "sub": 0x6ee08400, "trn1": 0x4ec02800, "trn2": 0x4ec06800}

// of returns the encoding for float32 or float64.
func (w neonWord) of(double bool) uint32 {
	if !double || w.bits {
		return w.word
	}
	if d, ok := doubled[w.name]; ok {
		return d
	}
	return w.word | wide
}

// neonReg is a value of a vector. It has a register while it lives, or always.
type neonReg struct {
	phys   int // -1 for none
	pinned bool
	last   int // the operation that uses it last
}

// neonOp is an operation of straight code.
type neonOp struct {
	dst  *neonReg
	srcs []*neonReg
	tied *neonReg // whose register dst takes, or a copy of it; nil for none
	text func(dst int, srcs []int) string
}

// errRegisters is what straight code panics with when it needs more registers than there
// are.
var errRegisters = errors.New("no vector register is left")

// neonFunc is a function under construction.
type neonFunc struct {
	b      strings.Builder
	double bool
	ops    []neonOp
	taken  [32]bool // by values that keep their register
	keep   int      // how many constants may keep a register
	kept   map[string]*neonReg
	asked  []string // constants in the order of their first use
}

// size returns the bytes of a number.
func (f *neonFunc) size() int { return 16 / f.lanes() }

// lanes returns the numbers of a vector.
func (f *neonFunc) lanes() int { return neonLanes(f.double) }

func neonLanes(double bool) int {
	if double {
		return 2
	}
	return 4
}

// line adds an instruction of Go's assembler.
func (f *neonFunc) line(format string, args ...any) {
	f.b.WriteString("\t" + fmt.Sprintf(format, args...) + "\n")
}

func (f *neonFunc) label(name string) { f.b.WriteString("\n" + name + ":\n") }

// pin returns a value that keeps its register for the whole function.
func (f *neonFunc) pin() *neonReg {
	for i := range f.taken {
		if !f.taken[i] {
			f.taken[i] = true
			return &neonReg{phys: i, pinned: true}
		}
	}
	panic(errRegisters)
}

// encode returns an instruction as a word, which Go's assembler has no name for. An
// instruction of one source has its register as a.
func encode(w neonWord, double bool, dst, a, b int) string {
	form := "4s"
	if double && !w.bits {
		form = "2d"
	} else if w.bits {
		form = "16b"
	}
	return fmt.Sprintf("WORD $0x%08x // %s.%s v%d, v%d, v%d", w.of(double)|uint32(b<<16|a<<5|dst), w.name, form, dst, a, b)
}

// encode1 is encode of an instruction of one source.
func encode1(w neonWord, double bool, dst, a int) string {
	form := "4s"
	if double && !w.bits {
		form = "2d"
	}
	return fmt.Sprintf("WORD $0x%08x // %s.%s v%d, v%d", w.of(double)|uint32(a<<5|dst), w.name, form, dst, a)
}

// moved copies a register.
func moved(dst, src int) string { return encode(orr, false, dst, src, src) }

// add adds an operation, and returns its result.
func (f *neonFunc) add(text func(dst int, srcs []int) string, tied *neonReg, srcs ...*neonReg) *neonReg {
	dst := &neonReg{phys: -1}
	f.ops = append(f.ops, neonOp{dst, srcs, tied, text})
	return dst
}

// two returns w of two values.
func (f *neonFunc) two(w neonWord, a, b *neonReg) *neonReg {
	double := f.double
	return f.add(func(dst int, s []int) string { return encode(w, double, dst, s[0], s[1]) }, nil, a, b)
}

// single returns w of one value.
func (f *neonFunc) single(w neonWord, a *neonReg) *neonReg {
	double := f.double
	return f.add(func(dst int, s []int) string { return encode1(w, double, dst, s[0]) }, nil, a)
}

// change returns w of three values, of which the first is that of the target before.
func (f *neonFunc) change(w neonWord, target, a, b *neonReg) *neonReg {
	double := f.double
	return f.add(func(dst int, s []int) string { return encode(w, double, dst, s[0], s[1]) }, target, a, b)
}

// into is change of a target that keeps its register.
func (f *neonFunc) into(w neonWord, target, a, b *neonReg) {
	double := f.double
	f.ops = append(f.ops, neonOp{nil, []*neonReg{a, b, target}, nil, func(_ int, s []int) string { return encode(w, double, s[2], s[0], s[1]) }})
}

// shifted returns integers of 32 bits shifted by n, to the left or to the right with
// their sign.
func (f *neonFunc) shifted(a *neonReg, n int, left bool) *neonReg {
	w, name, by := uint32(0x4f000400), "sshr", 64-n
	if left {
		w, name, by = 0x4f005400, "shl", 32+n
	}
	return f.add(func(dst int, s []int) string {
		return fmt.Sprintf("WORD $0x%08x // %s.4s v%d, v%d, %d", w|uint32(by<<16|s[0]<<5|dst), name, dst, s[0], n)
	}, nil, a)
}

// load returns the vector at an address of general registers.
func (f *neonFunc) load(base string, offset int) *neonReg {
	return f.add(func(dst int, _ []int) string { return fmt.Sprintf("FMOVQ %d(%s), F%d", offset, base, dst) }, nil)
}

// store writes a vector.
func (f *neonFunc) store(v *neonReg, base string, offset int) {
	f.ops = append(f.ops, neonOp{nil, []*neonReg{v}, nil, func(_ int, s []int) string { return fmt.Sprintf("FMOVQ F%d, %d(%s)", s[0], offset, base) }})
}

// c returns a constant, which keeps a register if there is one.
func (f *neonFunc) c(name string) *neonReg {
	if r, ok := f.kept[name]; ok {
		return r
	}
	if !slices.Contains(f.asked, name) {
		f.asked = append(f.asked, name)
	}
	symbol := f.symbol(name)
	return f.add(func(dst int, _ []int) string {
		return fmt.Sprintf("MOVD $%s(SB), R16\n\tFMOVQ (R16), F%d", symbol, dst)
	}, nil)
}

// symbol returns the name that a constant of f's numbers has.
func (f *neonFunc) symbol(name string) string {
	if f.double {
		name += "64"
	}
	at(name) // which panics if there is none
	return "\u00b7const_" + name
}

// keepConstants gives registers to the first constants of those that a try has asked for,
// and loads them.
func (f *neonFunc) keepConstants(names []string) {
	f.kept = map[string]*neonReg{}
	for i, name := range names {
		if i == f.keep {
			return
		}
		r := f.pin()
		f.line("MOVD $%s(SB), R16", f.symbol(name))
		f.line("FMOVQ (R16), F%d", r.phys)
		f.kept[name] = r
	}
}

// flush gives registers to the values of the operations so far, and writes them. None of
// the values lives beyond.
func (f *neonFunc) flush() {
	for i, o := range f.ops {
		for _, r := range append([]*neonReg{o.tied}, o.srcs...) {
			if r != nil {
				r.last = i
			}
		}
	}
	used := f.taken
	free := func(r *neonReg, i int) {
		if r != nil && !r.pinned && r.last == i && r.phys >= 0 {
			used[r.phys] = false
		}
	}
	next := func() int {
		for i := range used {
			if !used[i] {
				used[i] = true
				return i
			}
		}
		panic(errRegisters)
	}
	for i, o := range f.ops {
		srcs := make([]int, len(o.srcs))
		for j, r := range o.srcs {
			srcs[j] = r.phys
		}
		release := func() {
			for _, r := range o.srcs {
				free(r, i)
			}
		}
		switch dies := o.tied != nil && !o.tied.pinned && o.tied.last == i && !slices.Contains(o.srcs, o.tied); {
		case o.dst == nil:
			f.line("%s", o.text(0, srcs))
			release()
			continue
		case dies:
			o.dst.phys = o.tied.phys
			release()
		case o.tied != nil: // the copy must not take the place of a source
			o.dst.phys = next()
			f.line("%s", moved(o.dst.phys, o.tied.phys))
			release()
			free(o.tied, i)
		default:
			release()
			o.dst.phys = next()
		}
		f.line("%s", o.text(o.dst.phys, srcs))
		if o.dst.last <= i { // nothing uses it
			used[o.dst.phys] = false
		}
	}
	f.ops = nil
}
