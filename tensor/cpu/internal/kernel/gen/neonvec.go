package main

import (
	"fmt"
	"slices"
	"strings"
)

// neonSet is the files of one instruction set: the functions so far, and the declarations
// of them that Go needs.
type neonSet struct {
	asm, stubs strings.Builder
	loops      []loop
}

// argument is an argument or a result of a function.
type argument struct {
	name, kind string
	size       int
	offset     int
}

// arguments lays out those of a function as Go's assembly has them. A list follows Go
// syntax, each name with its type.
func arguments(list, results string) (args []argument, bytes int) {
	at := 0
	add := func(list string) {
		var names []string
		for _, field := range strings.Split(list, ",") {
			name, kind, typed := strings.Cut(strings.TrimSpace(field), " ")
			if name == "" {
				return
			}
			names = append(names, name)
			if !typed {
				continue
			}
			size := 8
			if kind == "float32" {
				size = 4
			}
			for _, n := range names {
				at = (at + size - 1) / size * size
				args = append(args, argument{n, kind, size, at})
				at += size
			}
			names = nil
		}
	}
	add(list)
	if results != "" {
		at = (at + 7) / 8 * 8
	}
	add(results)
	return args, at
}

// function adds a function of which body writes the instructions. frame is the size of
// its buffer on the stack.
func (s *neonSet) function(name, doc, args, results string, frame int, double bool, body func(f *neonFunc, at func(arg string) string)) {
	list, bytes := arguments(args, results)
	at := func(arg string) string {
		i := slices.IndexFunc(list, func(a argument) bool { return a.name == arg })
		return fmt.Sprintf("%s+%d(FP)", arg, list[i].offset)
	}
	f := written(double, func(f *neonFunc) { body(f, at) })
	fmt.Fprintf(&s.asm, "\n// func %s(%s)", name, args)
	fmt.Fprintf(&s.stubs, "\n")
	for _, line := range wrapped(name + " " + doc) {
		fmt.Fprintf(&s.stubs, "// %s\n", line)
	}
	fmt.Fprintf(&s.stubs, "//\n//go:noescape\nfunc %s(%s)", name, args)
	if results != "" {
		fmt.Fprintf(&s.asm, " (%s)", results)
		fmt.Fprintf(&s.stubs, " (%s)", results)
	}
	fmt.Fprintf(&s.stubs, "\n")
	fmt.Fprintf(&s.asm, "\nTEXT \u00b7%s(SB), NOSPLIT, $%d-%d\n%s", name, frame, bytes, f.b.String())
}

// written returns what body writes. Constants keep registers as far as there are any for
// them: it tries with all, then with one less.
func written(double bool, body func(f *neonFunc)) *neonFunc {
	try := func(keep int, names []string) (f *neonFunc, ok bool) {
		defer func() {
			if r := recover(); r != nil && r != errRegisters {
				panic(r)
			}
		}()
		f = &neonFunc{double: double, keep: keep, asked: slices.Clone(names)}
		body(f)
		return f, true
	}
	names := []string{}
	if f, ok := try(0, nil); ok {
		names = f.asked
	}
	for keep := len(names); keep >= 0; keep-- {
		if f, ok := try(keep, names); ok {
			return f
		}
	}
	panic("a kernel needs more registers than there are without constants")
}

// neon writes the loops of one type of numbers.
type neon struct {
	*neonSet
	*neonFunc // under construction
	double    bool
}

// named returns the name that a kernel has in Go.
func (k *neon) named(name string) string {
	if k.double {
		return name + "F64NEON"
	}
	return name + "NEON"
}

func (k *neon) elem() string {
	if k.double {
		return "float64"
	}
	return "float32"
}

// move returns the instruction of Go's assembler that moves one number between memory and
// a register of vectors.
func (f *neonFunc) move() string {
	if f.double {
		return "FMOVD"
	}
	return "FMOVS"
}

// spread loads a number of the arguments into all lanes of a register that is kept.
func (f *neonFunc) spread(from string) *neonReg {
	r := f.pin()
	f.line("%s %s, F%d", f.move(), from, r.phys)
	w := uint32(0x4e040400)
	form := "4s"
	if f.double {
		w, form = 0x4e080400, "2d"
	}
	f.line("WORD $0x%08x // dup.%s v%d, v%d[0]", w|uint32(r.phys<<5|r.phys), form, r.phys, r.phys)
	return r
}

// neonStep computes vector u of a round. rest is as that of kern.walk.
type neonStep func(u int, in, sc []*neonReg, rest func(v *neonReg, constant string) *neonReg) (outs []*neonReg)

// buffers returns the size of the stack that a loop of shape h needs: a vector for each
// operand, for the numbers after the last whole one.
func (h shape) buffers() int { return 16 * (h.outs + h.ins) }

// walk writes the loop over n elements, as kern.walk. The last numbers go through vectors
// on the stack.
func (k *neon) walk(h shape, at func(string) string, step neonStep) {
	reg := 0
	next := func(arg string) string {
		r := fmt.Sprint("R", reg)
		reg++
		k.line("MOVD %s, %s", at(arg), r)
		return r
	}
	n := next("n")
	var outs, ins []string
	for i := range h.outs {
		outs = append(outs, next(fmt.Sprint("out", i)))
	}
	for i := range h.ins {
		ins = append(ins, next(fmt.Sprint("in", i)))
	}
	var sc []*neonReg
	for i := range h.scalars {
		sc = append(sc, k.spread(at(fmt.Sprint("s", i))))
	}
	k.keepConstants(k.asked)
	whole := func(v *neonReg, _ string) *neonReg { return v }
	round := func(label, after string, vecs int) {
		k.label(label)
		k.line("CMP $%d, %s", vecs*k.lanes(), n)
		k.line("BLT %s", after)
		for u := range vecs {
			var in []*neonReg
			for _, p := range ins {
				in = append(in, k.load(p, 16*u))
			}
			for i, v := range step(u, in, sc, whole) {
				k.store(v, outs[i], 16*u)
			}
			k.flush()
		}
		for _, p := range append(slices.Clone(outs), ins...) {
			k.line("ADD $%d, %s", 16*vecs, p)
		}
		k.line("SUB $%d, %s", vecs*k.lanes(), n)
		k.line("B %s", label)
	}
	if h.unroll > 1 {
		round("several", "one", h.unroll)
	}
	round("one", "last", 1)
	k.label("last")
	k.line("CBZ %s, done", n)
	k.last(h, n, outs, ins, sc, step)
	k.label("done")
}

// last writes the step of the last n numbers, which are fewer than a vector has.
func (k *neon) last(h shape, n string, outs, ins []string, sc []*neonReg, step neonStep) {
	const buffer, at, number = "R14", "R12", "R13"
	k.line("MOVD $last-%d(SP), %s", h.buffers(), buffer)
	zero := k.c("zero")
	for i := range h.ins {
		k.store(zero, buffer, 16*i)
	}
	k.flush()
	load, store, shift := "MOVWU", "MOVW", 2
	if k.double {
		load, store, shift = "MOVD", "MOVD", 3
	}
	// each copies the numbers of operands.
	each := func(label string, count int, copy func(i int)) {
		if count == 0 {
			return
		}
		k.line("MOVD $0, %s", at)
		k.label(label)
		for i := range count {
			copy(i)
		}
		k.line("ADD $1, %s", at)
		k.line("CMP %s, %s", n, at)
		k.line("BLT %s", label)
	}
	place := func(i int) string {
		k.line("ADD $%d, %s, R15", 16*i, buffer)
		return "R15"
	}
	each("in", h.ins, func(i int) {
		k.line("%s (%s)(%s<<%d), %s", load, ins[i], at, shift, number)
		k.line("%s %s, (%s)(%s<<%d)", store, number, place(i), at, shift)
	})
	// the first n lanes are set
	k.line("MOVD $\u00b7const_lanes+64(SB), R16")
	k.line("SUB %s<<%d, R16, R16", n, shift)
	mask := k.pin()
	k.line("FMOVQ (R16), F%d", mask.phys)
	var in []*neonReg
	for i := range h.ins {
		in = append(in, k.load(buffer, 16*i))
	}
	rest := func(v *neonReg, constant string) *neonReg { return k.choose(mask, v, k.c(constant)) }
	for i, v := range step(0, in, sc, rest) {
		k.store(v, buffer, 16*(h.ins+i))
	}
	k.flush()
	each("out", h.outs, func(i int) {
		k.line("%s (%s)(%s<<%d), %s", load, place(h.ins+i), at, shift, number)
		k.line("%s %s, (%s)(%s<<%d)", store, number, outs[i], at, shift)
	})
}

// each writes a kernel that computes every element alone, as kern.each.
func (k *neon) each(name string, h shape, doc string, body func(in, sc []*neonReg) []*neonReg) {
	k.loops = append(k.loops, loop{name: name, shape: h})
	k.function(k.named(name), doc, h.args(k.elem()), "", h.buffers(), k.double, func(f *neonFunc, at func(string) string) {
		k.neonFunc = f
		k.walk(h, at, func(_ int, in, sc []*neonReg, _ func(*neonReg, string) *neonReg) []*neonReg { return body(in, sc) })
		k.line("RET")
	})
}

// reduce writes a kernel that also returns results, as kern.reduce: body changes the
// accumulators.
func (k *neon) reduce(name string, h shape, results int, start string, doc string, combine func(a, b *neonReg) *neonReg,
	body func(in, sc, acc []*neonReg, rest func(*neonReg, string) *neonReg) (outs []*neonReg)) {
	k.loops = append(k.loops, loop{name, h, results, start})
	var rets []string
	for i := range results {
		rets = append(rets, fmt.Sprintf("r%d %s", i, k.elem()))
	}
	k.function(k.named(name), doc, h.args(k.elem()), strings.Join(rets, ", "), h.buffers(), k.double, func(f *neonFunc, at func(string) string) {
		k.neonFunc = f
		acc := make([][]*neonReg, h.unroll)
		f.line("MOVD $%s(SB), R16", f.symbol(start))
		for u := range acc {
			for range results {
				r := f.pin()
				f.line("FMOVQ (R16), F%d", r.phys)
				acc[u] = append(acc[u], r)
			}
		}
		k.walk(h, at, func(u int, in, sc []*neonReg, rest func(*neonReg, string) *neonReg) []*neonReg {
			return body(in, sc, acc[u], rest)
		})
		for i := range results {
			var sums []*neonReg
			for u := range acc {
				sums = append(sums, acc[u][i])
			}
			for step := 1; step < len(sums); step *= 2 { // pairs, then pairs of pairs
				for u := 0; u+step < len(sums); u += 2 * step {
					sums[u] = combine(sums[u], sums[u+step])
				}
			}
			k.set(acc[0][i], k.fold(sums[0], combine))
			k.flush()
			f.line("%s F%d, %s", f.move(), acc[0][i].phys, at(fmt.Sprint("r", i)))
		}
		f.line("RET")
	})
}

// set moves a value to one that keeps its register.
func (f *neonFunc) set(to, v *neonReg) {
	f.ops = append(f.ops, neonOp{nil, []*neonReg{v, to}, nil, func(_ int, s []int) string { return moved(s[1], s[0]) }})
}

// fold combines the lanes of v until all hold the result.
func (f *neonFunc) fold(v *neonReg, combine func(a, b *neonReg) *neonReg) *neonReg {
	v = combine(v, f.two(ext8, v, v))
	if !f.double {
		v = combine(v, f.single(rev64, v))
	}
	return v
}

// choose returns yes in the lanes of mask, no in the others.
func (f *neonFunc) choose(mask, yes, no *neonReg) *neonReg { return f.change(bsl, mask, yes, no) }

func (f *neonFunc) plus(a, b *neonReg) *neonReg  { return f.two(fadd, a, b) }
func (f *neonFunc) minus(a, b *neonReg) *neonReg { return f.two(fsub, a, b) }
func (f *neonFunc) times(a, b *neonReg) *neonReg { return f.two(fmul, a, b) }
func (f *neonFunc) over(a, b *neonReg) *neonReg  { return f.two(fdiv, a, b) }

// fma returns a*b + c, rounded once.
func (f *neonFunc) fma(a, b, c *neonReg) *neonReg { return f.change(fmla, c, a, b) }

// poly returns a polynomial in x by Horner's rule, highest coefficient first.
func (f *neonFunc) poly(x *neonReg, coefficients ...string) *neonReg {
	p := f.c(coefficients[0])
	for _, c := range coefficients[1:] {
		p = f.fma(p, x, f.c(c))
	}
	return p
}
