package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

type vreg = reg.VecVirtual

// kern writes a vector kernel. The methods add instructions. None changes its operands,
// unless its name says so.
type kern struct {
	isa
	hoisted map[string]vreg // constants that stay in a register
	labels  int             // made so far
}

// c returns a constant as a source operand, which may be memory.
func (k *kern) c(name string) Op {
	if v, ok := k.hoisted[name]; ok {
		return v
	}
	if k.double {
		name += "64"
	}
	return at(name)
}

// mut returns a constant in a register of its own.
func (k *kern) mut(name string) vreg {
	v := k.vec()
	VMOVUPS(k.c(name), v)
	return v
}

// hoist keeps constants in registers, where there are 32 of them.
func (k *kern) hoist(names ...string) {
	k.hoisted = map[string]vreg{}
	if !k.wide {
		return
	}
	for _, n := range names {
		v := k.vec()
		VMOVUPS(at(n), v)
		k.hoisted[n] = v
	}
}

func (k *kern) copy(x vreg) vreg {
	v := k.vec()
	VMOVAPS(x, v)
	return v
}

// of returns the form of an instruction for k's numbers.
func (s isa) of(single, double func(ops ...Op)) func(ops ...Op) {
	if s.double {
		return double
	}
	return single
}

// op applies an instruction dst = b OP a, in the order of operands of Go's assembler.
func (k *kern) op(ins func(ops ...Op), a Op, b vreg) vreg {
	v := k.vec()
	ins(a, b, v)
	return v
}

func (k *kern) add(a Op, b vreg) vreg { return k.op(k.of(VADDPS, VADDPD), a, b) }
func (k *kern) mul(a Op, b vreg) vreg { return k.op(k.of(VMULPS, VMULPD), a, b) }
func (k *kern) and(a Op, b vreg) vreg { return k.op(VANDPS, a, b) }
func (k *kern) xor(a Op, b vreg) vreg { return k.op(VXORPS, a, b) }
func (k *kern) or(a Op, b vreg) vreg  { return k.op(VORPS, a, b) }

// sub returns a - b.
func (k *kern) sub(a vreg, b Op) vreg { return k.op(k.of(VSUBPS, VSUBPD), b, a) }

// div returns a / b.
func (k *kern) div(a, b vreg) vreg { return k.op(k.of(VDIVPS, VDIVPD), b, a) }

// rootHoist are the constants of sqrt.
var rootHoist = []string{"half", "minusHalf", "rootMin", "rootSpan"}

// sqrt returns √a, rounded correctly. The unit that divides takes long for the roots of a
// wide vector, so they are made by multiplications: an estimate of 1/√a to 14 bits, one
// step of Newton for it and for the root, and the remainder of a. Outside of 2⁻⁹⁶ to 2⁹⁶,
// where a step could underflow or overflow, the unit does it.
func (k *kern) sqrt(a vreg) vreg {
	root := k.vec()
	if !k.wide || k.double {
		k.of(VSQRTPS, VSQRTPD)(a, root)
		return root
	}
	inverse, minusHalf := k.vec(), k.mut("minusHalf")
	VRSQRT14PS(a, inverse)
	VMULPS(inverse, a, root)
	VMULPS(k.c("half"), inverse, inverse) // half of 1/√a
	VFMADD231PS(root, inverse, minusHalf) // by how much root * inverse is above a half
	VFNMADD231PS(minusHalf, root, root)   // the factor is 1.5 - root * inverse
	VFNMADD231PS(minusHalf, inverse, inverse)
	left := k.copy(a)
	VFNMADD231PS(root, root, left)
	VFMADD231PS(left, inverse, root)
	at, outside := k.vec(), K()
	VPSUBD(k.c("rootMin"), a, at)
	VPCMPUD(U8(notLess), k.c("rootSpan"), at, outside)
	KORTESTW(outside, outside)
	k.labels++
	within := fmt.Sprint("within", k.labels)
	JZ(LabelRef(within))
	VSQRTPS(a, outside, root)
	Label(within)
	return root
}

// fma returns a*b + c.
func (k *kern) fma(a Op, b, c vreg) vreg {
	v := k.copy(c)
	k.of(VFMADD231PS, VFMADD231PD)(a, b, v)
	return v
}

// mask selects lanes.
type mask struct {
	k reg.OpmaskVirtual
	v vreg
}

// Predicates of VCMPPS, of which none signals, and of VPCMPUD.
const (
	equal     = 0
	lessThan  = 17
	notBelow  = 21 // or NaN
	above     = 22 // or NaN: not less than or equal
	below     = 25 // or NaN: not greater than or equal
	unordered = 3

	equalOrUnordered = 8
	notLess          = 5
)

// cmp compares a with b.
func (k *kern) cmp(predicate uint8, a vreg, b Op) mask {
	if k.wide {
		m := mask{k: K()}
		k.of(VCMPPS, VCMPPD)(U8(predicate), b, a, m.k)
		return m
	}
	m := mask{v: k.vec()}
	k.of(VCMPPS, VCMPPD)(U8(predicate), b, a, m.v)
	return m
}

// sel returns yes in the lanes of m, no in the others.
func (k *kern) sel(m mask, yes Op, no vreg) vreg {
	v := k.vec()
	if k.wide {
		k.of(VBLENDMPS, VBLENDMPD)(yes, no, m.k, v)
	} else {
		VBLENDVPS(m.v, yes, no, v)
	}
	return v
}

// clampAbove and clampBelow keep NaN: the instructions return their first operand here if
// either is NaN.
func (k *kern) clampAbove(x vreg, limit string) vreg {
	v := k.mut(limit)
	k.of(VMINPS, VMINPD)(x, v, v)
	return v
}

func (k *kern) clampBelow(x vreg, limit string) vreg {
	v := k.mut(limit)
	k.of(VMAXPS, VMAXPD)(x, v, v)
	return v
}

// extreme returns the larger of a and b with VMAXPS, the smaller with VMINPS, and NaN if
// either is.
func (k *kern) extreme(ins func(ops ...Op), a, b vreg) vreg {
	nan := k.cmp(unordered, a, a)
	return k.sel(nan, a, k.op(ins, b, a))
}

// poly returns a polynomial in x by Horner's rule, highest coefficient first.
func (k *kern) poly(x vreg, coefficients ...string) vreg {
	p := k.mut(coefficients[0])
	for _, c := range coefficients[1:] {
		k.of(VFMADD213PS, VFMADD213PD)(k.c(c), x, p)
	}
	return p
}

// fold combines the lanes of v with ins until all hold the result.
func (k *kern) fold(v vreg, combine func(a, b vreg) vreg) vreg {
	step := func(shuffle func(t vreg)) {
		t := k.vec()
		shuffle(t)
		v = combine(v, t)
	}
	if k.double {
		if k.wide {
			step(func(t vreg) { VSHUFF64X2(U8(0x4e), v, v, t) })
			step(func(t vreg) { VSHUFF64X2(U8(0xb1), v, v, t) })
			step(func(t vreg) { VPERMILPD(U8(0x55), v, t) })
		} else {
			step(func(t vreg) { VPERM2F128(U8(1), v, v, t) })
			step(func(t vreg) { VPERMILPD(U8(5), v, t) })
		}
		return v
	}
	if k.wide {
		step(func(t vreg) { VSHUFF32X4(U8(0x4e), v, v, t) })
		step(func(t vreg) { VSHUFF32X4(U8(0xb1), v, v, t) })
	} else {
		step(func(t vreg) { VPERM2F128(U8(1), v, v, t) })
	}
	step(func(t vreg) { VPERMILPS(U8(0x4e), v, t) })
	step(func(t vreg) { VPERMILPS(U8(0xb1), v, t) })
	return v
}

// shape is the operands of a kernel and its unrolling.
type shape struct {
	outs, ins, scalars int
	unroll             int
	// distance in bytes at which inputs are prefetched; 0 leaves it to the core
	ahead int
	hoist []string
	// within names the constant of Go beyond which Go computes; "" for none
	within string
}

// args returns the argument list: n, pointers out0.. and in0.., numbers s0.. of elem.
func (h shape) args(elem string) string {
	list := []string{"n int"}
	for _, g := range []struct {
		name, kind string
		n          int
	}{{"out", "*" + elem, h.outs}, {"in", "*" + elem, h.ins}, {"s", elem, h.scalars}} {
		for i := range g.n {
			list = append(list, fmt.Sprintf("%s%d %s", g.name, i, g.kind))
		}
	}
	return strings.Join(list, ", ")
}

// restFunc returns v with the lanes beyond the end of the data set to a constant.
type restFunc func(v vreg, constant string) vreg

// walk writes the loop over n elements: whole vectors, several at a time as long as there
// are enough, then one at a time, then the first lanes of a last one. step works on
// vector u of a round. rest replaces the lanes beyond the end by a constant; for a whole
// vector it returns its argument.
func (k *kern) walk(h shape, step func(u int, in, sc []vreg, rest restFunc) []vreg) {
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	var outs, ins []reg.Register
	var sc []vreg
	for i := range h.outs {
		outs = append(outs, Load(Param(fmt.Sprint("out", i)), GP64()))
	}
	for i := range h.ins {
		ins = append(ins, Load(Param(fmt.Sprint("in", i)), GP64()))
	}
	for i := range h.scalars {
		sc = append(sc, k.scalar(fmt.Sprint("s", i)))
	}
	at := GP64()
	XORQ(at, at)
	round := func(label, next string, vecs int) {
		count := uint32(vecs * k.lanes)
		Label(label)
		CMPQ(n, U32(count))
		JL(LabelRef(next))
		for u := range vecs {
			var in []vreg
			for _, p := range ins {
				v := k.vec()
				VMOVUPS(Mem{Base: p, Index: at, Scale: uint8(k.numberBytes()), Disp: k.bytes() * u}, v)
				in = append(in, v)
				if h.ahead > 0 {
					PREFETCHT0(Mem{Base: p, Index: at, Scale: uint8(k.numberBytes()), Disp: k.bytes()*u + h.ahead})
				}
			}
			for i, v := range step(u, in, sc, func(v vreg, _ string) vreg { return v }) {
				VMOVUPS(v, Mem{Base: outs[i], Index: at, Scale: uint8(k.numberBytes()), Disp: k.bytes() * u})
			}
		}
		ADDQ(U32(count), at)
		SUBQ(U32(count), n)
		JMP(LabelRef(label))
	}
	if h.unroll > 1 {
		round("several", "one", h.unroll)
	}
	round("one", "last", 1)
	Label("last")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	t := k.newTail(n, 1)
	var in []vreg
	for _, p := range ins {
		v := k.vec()
		t.load(0, Mem{Base: p, Index: at, Scale: uint8(k.numberBytes())}, v)
		in = append(in, v)
	}
	halves := &kern{isa: k.isa} // a tail selects float64 as two of float32
	halves.double = false
	rest := func(v vreg, constant string) vreg { return halves.sel(t.mask(), v, k.mut(constant)) }
	for i, v := range step(0, in, sc, rest) {
		t.store(0, v, Mem{Base: outs[i], Index: at, Scale: uint8(k.numberBytes())})
	}
	Label("done")
}

// record adds a loop to those that Go calls.
func (s isa) record(l loop) {
	if s.double {
		doubleLoops = append(doubleLoops, l)
	} else {
		loops = append(loops, l)
	}
}

// each writes a kernel that computes every element alone.
func (k *kern) each(name string, h shape, doc string, body func(in, sc []vreg) []vreg) {
	k.record(loop{name: name, shape: h})
	k.text(name, h.args(k.elem()), doc)
	k.hoist(h.hoist...)
	k.walk(h, func(_ int, in, sc []vreg, _ restFunc) []vreg { return body(in, sc) })
	k.ret()
}

// reduce writes a kernel that also returns results, made of accumulators that start at a
// constant. body returns the new accumulators, and the outputs if there are any.
func (k *kern) reduce(name string, h shape, results int, start string, doc string,
	combine func(a, b vreg) vreg, body func(in, sc, acc []vreg, rest restFunc) (accs, outs []vreg)) {
	k.record(loop{name, h, results, start})
	var rets []string
	for i := range results {
		rets = append(rets, fmt.Sprintf("r%d %s", i, k.elem()))
	}
	k.text(name, h.args(k.elem()), doc, rets...)
	k.hoist(h.hoist...)
	acc := make([][]vreg, max(1, h.unroll))
	for u := range acc {
		for range results {
			acc[u] = append(acc[u], k.mut(start))
		}
	}
	k.walk(h, func(u int, in, sc []vreg, rest restFunc) []vreg {
		accs, outs := body(in, sc, acc[u], rest)
		for i, v := range accs {
			if v != acc[u][i] {
				VMOVAPS(v, acc[u][i])
			}
		}
		return outs
	})
	for i := range results {
		for step := 1; step < len(acc); step *= 2 { // pairs, then pairs of pairs
			for u := 0; u+step < len(acc); u += 2 * step {
				acc[u][i] = combine(acc[u][i], acc[u+step][i])
			}
		}
		r, err := Return(fmt.Sprint("r", i)).Resolve()
		if err != nil {
			panic(err)
		}
		k.of(VMOVSS, VMOVSD)(k.fold(acc[0][i], combine).AsX(), r.Addr)
	}
	k.ret()
}
