package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// rowSet writes the kernels of whole rows.
func rowSet(s isa) {
	k := &kern{isa: s}
	rowKernels(k)
}

// vectors writes the elementwise kernels, the reductions and the parts of fused rows.
func vectors(s isa) {
	k := &kern{isa: s}
	elementwise(k)
	updates(k)
	activations(k)
	reductions(k)
	exponentials(k, k.exp, expHoist)
	norms(k)
	optimizers(k)
}

// doubleVectors writes those of float64.
func doubleVectors(s isa) {
	k := &kern{isa: s.doubles()}
	elementwise(k)
	updates(k)
	reductions(k)
	norms(k)
	optimizers(k)
}

func one(v vreg) []vreg { return []vreg{v} }

func elementwise(k *kern) {
	unary := shape{outs: 1, ins: 1, unroll: 4}
	binary := shape{outs: 1, ins: 2, unroll: 4}
	scalar := shape{outs: 1, ins: 1, scalars: 1, unroll: 4}
	// f takes both operands, the second of which is a vector or a scalar in all lanes.
	for _, o := range []struct {
		name    string
		scalar  bool
		reverse bool // s op x as well
		f       func(a, b vreg) vreg
	}{
		{"add", true, false, func(a, b vreg) vreg { return k.add(b, a) }},
		{"sub", false, true, func(a, b vreg) vreg { return k.sub(a, b) }},
		{"mul", true, false, func(a, b vreg) vreg { return k.mul(b, a) }},
		{"div", false, true, func(a, b vreg) vreg { return k.div(a, b) }},
		{"max", true, false, func(a, b vreg) vreg { return k.extreme(k.of(VMAXPS, VMAXPD), a, b) }},
		{"min", true, false, func(a, b vreg) vreg { return k.extreme(k.of(VMINPS, VMINPD), a, b) }},
	} {
		k.each(o.name, binary, "is out0 = in0 "+o.name+" in1.", func(in, _ []vreg) []vreg { return one(o.f(in[0], in[1])) })
		if o.scalar {
			k.each(o.name+"S", scalar, "is out0 = in0 "+o.name+" s0.", func(in, sc []vreg) []vreg { return one(o.f(in[0], sc[0])) })
		}
		if o.reverse {
			k.each("r"+o.name+"S", scalar, "is out0 = s0 "+o.name+" in0.", func(in, sc []vreg) []vreg { return one(o.f(sc[0], in[0])) })
		}
	}
	k.each("fill", shape{outs: 1, scalars: 1, unroll: 4}, "is out0 = s0.", func(_, sc []vreg) []vreg { return one(sc[0]) })
	k.each("neg", unary, "is out0 = -in0.", func(in, _ []vreg) []vreg { return one(k.neg(in[0])) })
	k.each("abs", unary, "is out0 = |in0|.", func(in, _ []vreg) []vreg { return one(k.and(k.c("abs"), in[0])) })
	k.each("square", unary, "is out0 = in0².", func(in, _ []vreg) []vreg { return one(k.mul(in[0], in[0])) })
	k.each("floor", unary, "is out0 = in0 rounded down.", func(in, _ []vreg) []vreg { return one(k.whole(in[0], 9)) })
	k.each("ceil", unary, "is out0 = in0 rounded up.", func(in, _ []vreg) []vreg { return one(k.whole(in[0], 10)) })
	k.each("sign", unary, "is out0 = -1 or 1, or in0 where that is 0 or NaN.", func(in, _ []vreg) []vreg {
		unit := k.or(k.c("one"), k.and(k.c("sign"), in[0]))
		return one(k.sel(k.cmp(equalOrUnordered, in[0], k.c("zero")), in[0], unit))
	})
	roots := unary
	if !k.double {
		roots.hoist = rootHoist
	}
	k.each("sqrt", roots, "is out0 = √in0.", func(in, _ []vreg) []vreg { return one(k.sqrt(in[0])) })
	k.each("rsqrt", roots, "is out0 = 1/√in0.", func(in, _ []vreg) []vreg { return one(k.div(k.mut("one"), k.sqrt(in[0]))) })
	k.each("recip", unary, "is out0 = 1/in0.", func(in, _ []vreg) []vreg { return one(k.div(k.mut("one"), in[0])) })
	k.each("relu", unary, "is out0 = max(in0, 0).", func(in, _ []vreg) []vreg { return one(k.clampBelow(in[0], "zero")) })
	k.each("reluGrad", binary, "is out0 = in1, but 0 where in0 ≤ 0.", func(in, _ []vreg) []vreg {
		zero := k.mut("zero")
		return one(k.sel(k.cmp(above, in[0], zero), in[1], zero))
	})
	k.each("keep", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = in0*s1 where in1 ≥ s0, 0 elsewhere.", func(in, sc []vreg) []vreg {
		return one(k.sel(k.cmp(below, in[1], sc[0]), k.mut("zero"), k.mul(sc[1], in[0])))
	})
	k.each("axpy", shape{outs: 1, ins: 2, scalars: 1, unroll: 4}, "is out0 = s0*in0 + in1.", func(in, sc []vreg) []vreg { return one(k.fma(sc[0], in[0], in[1])) })
}

// updates writes the parts of AdamW, with the bits that the kernel of all of it has, and
// the momentum of SGD.
func updates(k *kern) {
	k.each("adamM", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = in0*s0 + in1*s1.", func(in, sc []vreg) []vreg {
		return one(k.fma(sc[1], in[1], k.mul(sc[0], in[0])))
	})
	k.each("adamV", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = in0*s0 + in1²*s1.", func(in, sc []vreg) []vreg {
		return one(k.fma(sc[1], k.mul(in[1], in[1]), k.mul(sc[0], in[0])))
	})
	k.each("momentum", shape{outs: 1, ins: 3, scalars: 3, unroll: 4}, "is out0 = in0*s0 + in1*s1 + in2*s2.", func(in, sc []vreg) []vreg {
		return one(k.fma(sc[2], in[2], k.fma(sc[1], in[1], k.mul(sc[0], in[0]))))
	})
	h := shape{outs: 1, ins: 3, scalars: 4, unroll: 2}
	if !k.double {
		h.hoist = rootHoist
	}
	k.each("adamP", h, "is out0 = in0*s0 - in1*s1/(√in2*s2+s3).", func(in, sc []vreg) []vreg {
		d := k.add(sc[3], k.mul(sc[2], k.sqrt(in[2])))
		p := k.mul(sc[0], in[0])
		k.of(VFNMADD231PS, VFNMADD231PD)(sc[1], k.div(in[1], d), p)
		return one(p)
	})
}

func activations(k *kern) {
	unary := shape{outs: 1, ins: 1, unroll: 2, hoist: expHoist}
	binary := shape{outs: 1, ins: 2, unroll: 2, hoist: expHoist}
	for _, o := range []struct {
		name string
		f    func(x vreg) vreg
	}{
		{"exp", k.exp}, {"tanh", k.tanh}, {"erf", k.erf}, {"sigmoid", k.sigmoid},
		{"silu", func(x vreg) vreg { return k.div(x, k.onePlusExpNeg(x)) }},
		{"gelu", func(x vreg) vreg { return k.mul(x, k.cdf(x)) }},
		{"geluTanh", func(x vreg) vreg { u, _ := k.geluInner(x); return k.div(x, k.onePlusExpNeg(u)) }},
	} {
		k.each(o.name, unary, "is out0 = "+o.name+"(in0).", func(in, _ []vreg) []vreg { return one(o.f(in[0])) })
	}
	for _, o := range []struct {
		name string
		f    func(a, dy vreg) vreg
	}{
		{"sigmoidGrad", func(y, dy vreg) vreg { return k.mul(k.mul(dy, y), k.sub(k.mut("one"), y)) }},
		{"tanhGrad", func(y, dy vreg) vreg { return k.mul(dy, k.sub(k.mut("one"), k.mul(y, y))) }},
		{"siluGrad", func(x, dy vreg) vreg { s, rest := k.logistic(x); return k.mul(dy, k.siluSlope(x, s, rest)) }},
		{"geluGrad", func(x, dy vreg) vreg { return k.mul(dy, k.fma(x, k.pdf(x), k.cdf(x))) }},
		{"geluTanhGrad", func(x, dy vreg) vreg {
			u, square := k.geluInner(x)
			s, rest := k.logistic(u)
			t := k.mul(k.mul(x, s), rest)
			return k.mul(dy, k.fma(t, k.fma(k.c("gelu9"), square, k.mut("gelu1")), s))
		}},
	} {
		k.each(o.name, binary, "is the gradient of "+o.name[:len(o.name)-4]+": in0 what it saves, in1 the gradient of its output.",
			func(in, _ []vreg) []vreg { return one(o.f(in[0], in[1])) })
	}
}

// siluSlope returns the derivative s*(1+x*(1-s)) of x*s, where s is the sigmoid of x and
// rest is 1-s.
func (k *kern) siluSlope(x, s, rest vreg) vreg {
	return k.mul(s, k.fma(x, rest, k.mut("one")))
}

func reductions(k *kern) {
	sum := func(a, b vreg) vreg { return k.add(b, a) }
	k.reduce("sum", shape{ins: 1, unroll: 4}, 1, "zero", "returns the sum of in0.", sum,
		func(in, _, acc []vreg, _ restFunc) ([]vreg, []vreg) {
			return one(k.add(in[0], acc[0])), nil
		})
	k.reduce("dot", shape{ins: 2, unroll: 4}, 1, "zero", "returns the sum of in0*in1.", sum,
		func(in, _, acc []vreg, _ restFunc) ([]vreg, []vreg) {
			k.of(VFMADD231PS, VFMADD231PD)(in[0], in[1], acc[0])
			return acc, nil
		})
	k.reduce("sumSqDev", shape{ins: 1, scalars: 1, unroll: 4}, 1, "zero", "returns the sum of (in0-s0)².", sum,
		func(in, sc, acc []vreg, rest restFunc) ([]vreg, []vreg) {
			d := rest(k.sub(in[0], sc[0]), "zero")
			k.of(VFMADD231PS, VFMADD231PD)(d, d, acc[0])
			return acc, nil
		})
	for _, o := range []struct {
		name, start string
		ins         func(ops ...Op)
	}{{"rowMax", "minusInf", k.of(VMAXPS, VMAXPD)}, {"rowMin", "inf", k.of(VMINPS, VMINPD)}} {
		pick := func(a, b vreg) vreg { return k.extreme(o.ins, a, b) }
		k.reduce(o.name, shape{ins: 1, unroll: 4}, 1, o.start, "returns the extreme of in0, NaN if one is.", pick,
			func(in, _, acc []vreg, rest restFunc) ([]vreg, []vreg) {
				return one(pick(acc[0], rest(in[0], o.start))), nil
			})
	}
}

// exponentials writes the kernels that are made of exp, which keeps the constants of
// hoist in registers: reductions of eˣ, and the gradient of a log-softmax.
func exponentials(k *kern, exp func(x vreg) vreg, hoist []string) {
	sum := func(a, b vreg) vreg { return k.add(b, a) }
	of := func(in, sc []vreg) vreg { return exp(k.fma(sc[0], in[0], sc[1])) }
	k.reduce("expSum", shape{outs: 1, ins: 1, scalars: 2, unroll: 2, hoist: hoist}, 1, "zero", "is out0 = e^(in0*s0+s1), and returns its sum.", sum,
		func(in, sc, acc []vreg, rest restFunc) ([]vreg, []vreg) {
			e := of(in, sc)
			k.of(VADDPS, VADDPD)(rest(e, "zero"), acc[0], acc[0])
			return acc, one(e)
		})
	k.reduce("expTotal", shape{ins: 1, scalars: 2, unroll: 2, hoist: hoist}, 1, "zero", "returns the sum of e^(in0*s0+s1).", sum,
		func(in, sc, acc []vreg, rest restFunc) ([]vreg, []vreg) {
			k.of(VADDPS, VADDPD)(rest(of(in, sc), "zero"), acc[0], acc[0])
			return acc, nil
		})
	k.each("dlogsm", shape{outs: 1, ins: 2, scalars: 1, unroll: 2, hoist: hoist}, "is out0 = in1 - e^in0*s0.", func(in, sc []vreg) []vreg {
		return one(k.sub(in[1], k.mul(sc[0], exp(in[0]))))
	})
}

func norms(k *kern) {
	sum := func(a, b vreg) vreg { return k.add(b, a) }
	// hat is (x+s0)*s1.
	hat := func(x vreg, sc []vreg) vreg { return k.mul(sc[1], k.add(sc[0], x)) }
	k.each("plain", shape{outs: 1, ins: 1, scalars: 2, unroll: 4}, "is out0 = (in0+s0)*s1.", func(in, sc []vreg) []vreg { return one(hat(in[0], sc)) })
	k.each("shifted", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = (in0+s0)*s1*in1.", func(in, sc []vreg) []vreg { return one(k.mul(in[1], hat(in[0], sc))) })
	k.each("scaled", shape{outs: 1, ins: 3, scalars: 2, unroll: 4}, "is out0 = (in0+s0)*s1*in1 + in2.", func(in, sc []vreg) []vreg {
		return one(k.fma(in[1], hat(in[0], sc), in[2]))
	})
	k.reduce("normSums", shape{ins: 3, scalars: 2, unroll: 2}, 2, "zero", "returns the sums of h = in2*in1 and of h*(in0+s0)*s1.", sum,
		func(in, sc, acc []vreg, rest restFunc) ([]vreg, []vreg) {
			h := k.mul(in[1], in[2])
			k.of(VADDPS, VADDPD)(h, acc[0], acc[0])
			k.of(VFMADD231PS, VFMADD231PD)(h, rest(hat(in[0], sc), "zero"), acc[1])
			return acc, nil
		})
	k.reduce("normSums1", shape{ins: 2, scalars: 2, unroll: 2}, 2, "zero", "returns the sums of in1 and of in1*(in0+s0)*s1.", sum,
		func(in, sc, acc []vreg, rest restFunc) ([]vreg, []vreg) {
			k.of(VADDPS, VADDPD)(in[1], acc[0], acc[0])
			k.of(VFMADD231PS, VFMADD231PD)(in[1], rest(hat(in[0], sc), "zero"), acc[1])
			return acc, nil
		})
	slope := func(x, h vreg, sc []vreg) []vreg {
		return one(k.mul(sc[1], k.fma(sc[3], hat(x, sc), k.add(sc[2], h))))
	}
	k.each("normGrad", shape{outs: 1, ins: 3, scalars: 4, unroll: 2}, "is out0 = s1*(in2*in1 + s2 + (in0+s0)*s1*s3).", func(in, sc []vreg) []vreg {
		return slope(in[0], k.mul(in[1], in[2]), sc)
	})
	k.each("normGrad1", shape{outs: 1, ins: 2, scalars: 4, unroll: 2}, "is out0 = s1*(in1 + s2 + (in0+s0)*s1*s3).", func(in, sc []vreg) []vreg {
		return slope(in[0], in[1], sc)
	})
	k.each("addGrad", shape{outs: 1, ins: 3, scalars: 2, unroll: 2}, "is out0 = in0 + in2*(in1+s0)*s1.", func(in, sc []vreg) []vreg {
		return one(k.fma(in[2], hat(in[1], sc), in[0]))
	})
}

// optimizers writes the kernel of all of AdamW.
func optimizers(k *kern) {
	h := shape{outs: 3, ins: 4, scalars: 8, unroll: 4, ahead: 1024}
	if !k.double {
		h.hoist = rootHoist
	}
	// Four streams in and three out are more than some cores fetch ahead: see "AdamW
	// fetches ahead" in docs/decisions.md.
	k.each("adamw", h, "is AdamWStep, whose fields s0 to s7 are: out0, out1, out2 the new of in0 p, in1 m, in2 v; in3 the gradient.",
		func(in, sc []vreg) []vreg {
			p, m, v, g := in[0], in[1], in[2], in[3]
			m = k.fma(sc[1], g, k.mul(sc[0], m))
			v = k.fma(sc[3], k.mul(g, g), k.mul(sc[2], v))
			d := k.add(sc[5], k.mul(sc[4], k.sqrt(v)))
			p = k.mul(sc[6], p)
			k.of(VFNMADD231PS, VFNMADD231PD)(sc[7], k.div(m, d), p)
			return []vreg{p, m, v}
		})
}
