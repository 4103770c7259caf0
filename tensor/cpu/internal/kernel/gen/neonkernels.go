package main

// neonVectors writes the loops of one type of numbers: those of kernels.go, with the same
// formulas.
func neonVectors(s *neonSet, double bool) []loop {
	k := &neon{neonSet: s, double: double}
	s.loops = nil
	k.elementwise()
	k.updates()
	k.reductions()
	k.norms()
	if !double {
		k.exponentials()
		k.activations()
	}
	return s.loops
}

type (
	regs = []*neonReg
	// keepLanes replaces the lanes beyond the end of the data by a constant, as restFunc
	keepLanes = func(v *neonReg, constant string) *neonReg
)

func (k *neon) elementwise() {
	unary := shape{outs: 1, ins: 1, unroll: 4}
	binary := shape{outs: 1, ins: 2, unroll: 4}
	scalar := shape{outs: 1, ins: 1, scalars: 1, unroll: 4}
	for _, o := range []struct {
		name    string
		scalar  bool
		reverse bool
		word    neonWord
	}{{"add", true, false, fadd}, {"sub", false, true, fsub}, {"mul", true, false, fmul}, {"div", false, true, fdiv}, {"max", true, false, fmax}, {"min", true, false, fmin}} {
		k.each(o.name, binary, "is out0 = in0 "+o.name+" in1.", func(in, _ regs) regs { return regs{k.two(o.word, in[0], in[1])} })
		if o.scalar {
			k.each(o.name+"S", scalar, "is out0 = in0 "+o.name+" s0.", func(in, sc regs) regs { return regs{k.two(o.word, in[0], sc[0])} })
		}
		if o.reverse {
			k.each("r"+o.name+"S", scalar, "is out0 = s0 "+o.name+" in0.", func(in, sc regs) regs { return regs{k.two(o.word, sc[0], in[0])} })
		}
	}
	k.each("fill", shape{outs: 1, scalars: 1, unroll: 4}, "is out0 = s0.", func(_, sc regs) regs { return regs{sc[0]} })
	for _, o := range []struct {
		name, doc string
		word      neonWord
	}{
		{"neg", "-in0", fneg}, {"abs", "|in0|", fabs}, {"floor", "in0 rounded down", frintm}, {"ceil", "in0 rounded up", frintp}, {"sqrt", "√in0", fsqrt},
	} {
		k.each(o.name, unary, "is out0 = "+o.doc+".", func(in, _ regs) regs { return regs{k.single(o.word, in[0])} })
	}
	k.each("square", unary, "is out0 = in0².", func(in, _ regs) regs { return regs{k.times(in[0], in[0])} })
	k.each("sign", unary, "is out0 = -1 or 1, or in0 where that is 0 or NaN.", func(in, _ regs) regs {
		x, zero := in[0], k.c("zero")
		unit := k.two(orr, k.c("one"), k.two(and, k.c("sign"), x))
		return regs{k.choose(k.two(orr, k.two(fcmgt, x, zero), k.two(fcmgt, zero, x)), unit, x)}
	})
	k.each("rsqrt", unary, "is out0 = 1/√in0.", func(in, _ regs) regs { return regs{k.over(k.c("one"), k.single(fsqrt, in[0]))} })
	k.each("recip", unary, "is out0 = 1/in0.", func(in, _ regs) regs { return regs{k.over(k.c("one"), in[0])} })
	k.each("relu", unary, "is out0 = in0, but 0 where in0 < 0.", func(in, _ regs) regs {
		return regs{k.two(bic, in[0], k.two(fcmgt, k.c("zero"), in[0]))}
	})
	k.each("reluGrad", binary, "is out0 = in1, but 0 where in0 ≤ 0.", func(in, _ regs) regs {
		return regs{k.two(bic, in[1], k.two(fcmge, k.c("zero"), in[0]))}
	})
	k.each("keep", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = in0*s1 where in1 ≥ s0, 0 elsewhere.", func(in, sc regs) regs {
		return regs{k.two(and, k.times(in[0], sc[1]), k.two(fcmge, in[1], sc[0]))}
	})
	k.each("axpy", shape{outs: 1, ins: 2, scalars: 1, unroll: 4}, "is out0 = s0*in0 + in1.", func(in, sc regs) regs { return regs{k.fma(sc[0], in[0], in[1])} })
}

// updates writes the steps of optimizers: AdamW whole and in parts, which have the same
// bits, and the momentum of SGD.
func (k *neon) updates() {
	m := func(m, g, keep, rest *neonReg) *neonReg { return k.fma(rest, g, k.times(keep, m)) }
	v := func(v, g, keep, rest *neonReg) *neonReg { return k.fma(rest, k.times(g, g), k.times(keep, v)) }
	p := func(p, m, v, decay, rate, root, eps *neonReg) *neonReg {
		d := k.plus(k.times(root, k.single(fsqrt, v)), eps)
		return k.change(fmls, k.times(decay, p), rate, k.over(m, d))
	}
	k.each("adamM", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = in0*s0 + in1*s1.", func(in, sc regs) regs {
		return regs{m(in[0], in[1], sc[0], sc[1])}
	})
	k.each("adamV", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = in0*s0 + in1²*s1.", func(in, sc regs) regs {
		return regs{v(in[0], in[1], sc[0], sc[1])}
	})
	k.each("momentum", shape{outs: 1, ins: 3, scalars: 3, unroll: 4}, "is out0 = in0*s0 + in1*s1 + in2*s2.", func(in, sc regs) regs {
		return regs{k.fma(sc[2], in[2], k.fma(sc[1], in[1], k.times(sc[0], in[0])))}
	})
	k.each("adamP", shape{outs: 1, ins: 3, scalars: 4, unroll: 2}, "is out0 = in0*s0 - in1*s1/(√in2*s2+s3).", func(in, sc regs) regs {
		return regs{p(in[0], in[1], in[2], sc[0], sc[1], sc[2], sc[3])}
	})
	k.each("adamw", shape{outs: 3, ins: 4, scalars: 8, unroll: 2}, "is AdamWStep, whose fields s0 to s7 are: out0, out1, out2 the new of in0 p, in1 m, in2 v; in3 the gradient.",
		func(in, sc regs) regs {
			m, v := m(in[1], in[3], sc[0], sc[1]), v(in[2], in[3], sc[2], sc[3])
			return regs{p(in[0], m, v, sc[6], sc[7], sc[4], sc[5]), m, v}
		})
}

// sum is the combination of sums.
func (k *neon) sum(a, b *neonReg) *neonReg { return k.plus(a, b) }

// reductions has as many sums in parallel as eight lanes have, which bounds the rounding
// of long ones.
func (k *neon) reductions() {
	k.reduce("sum", shape{ins: 1, unroll: 8}, 1, "zero", "returns the sum of in0.", k.sum, func(in, _, acc regs, _ keepLanes) regs {
		k.into(fadd, acc[0], acc[0], in[0])
		return nil
	})
	k.reduce("dot", shape{ins: 2, unroll: 8}, 1, "zero", "returns the sum of in0*in1.", k.sum, func(in, _, acc regs, _ keepLanes) regs {
		k.into(fmla, acc[0], in[0], in[1])
		return nil
	})
	k.reduce("sumSqDev", shape{ins: 1, scalars: 1, unroll: 8}, 1, "zero", "returns the sum of (in0-s0)².", k.sum, func(in, sc, acc regs, rest keepLanes) regs {
		d := rest(k.minus(in[0], sc[0]), "zero")
		k.into(fmla, acc[0], d, d)
		return nil
	})
	for _, o := range []struct {
		name, start string
		word        neonWord
	}{{"rowMax", "minusInf", fmax}, {"rowMin", "inf", fmin}} {
		pick := func(a, b *neonReg) *neonReg { return k.two(o.word, a, b) }
		k.reduce(o.name, shape{ins: 1, unroll: 4}, 1, o.start, "returns the extreme of in0, NaN if one is.", pick, func(in, _, acc regs, rest keepLanes) regs {
			k.into(o.word, acc[0], acc[0], rest(in[0], o.start))
			return nil
		})
	}
}

func (k *neon) norms() {
	// hat is (x+s0)*s1.
	hat := func(x *neonReg, sc regs) *neonReg { return k.times(k.plus(x, sc[0]), sc[1]) }
	k.each("plain", shape{outs: 1, ins: 1, scalars: 2, unroll: 4}, "is out0 = (in0+s0)*s1.", func(in, sc regs) regs { return regs{hat(in[0], sc)} })
	k.each("shifted", shape{outs: 1, ins: 2, scalars: 2, unroll: 4}, "is out0 = (in0+s0)*s1*in1.", func(in, sc regs) regs { return regs{k.times(hat(in[0], sc), in[1])} })
	k.each("scaled", shape{outs: 1, ins: 3, scalars: 2, unroll: 4}, "is out0 = (in0+s0)*s1*in1 + in2.", func(in, sc regs) regs {
		return regs{k.fma(in[1], hat(in[0], sc), in[2])}
	})
	sums := func(h, x *neonReg, sc, acc regs, rest keepLanes) regs {
		k.into(fadd, acc[0], acc[0], h)
		k.into(fmla, acc[1], h, rest(hat(x, sc), "zero"))
		return nil
	}
	k.reduce("normSums", shape{ins: 3, scalars: 2, unroll: 4}, 2, "zero", "returns the sums of h = in2*in1 and of h*(in0+s0)*s1.", k.sum, func(in, sc, acc regs, rest keepLanes) regs {
		return sums(k.times(in[1], in[2]), in[0], sc, acc, rest)
	})
	k.reduce("normSums1", shape{ins: 2, scalars: 2, unroll: 4}, 2, "zero", "returns the sums of in1 and of in1*(in0+s0)*s1.", k.sum, func(in, sc, acc regs, rest keepLanes) regs {
		return sums(in[1], in[0], sc, acc, rest)
	})
	slope := func(x, h *neonReg, sc regs) regs {
		return regs{k.times(sc[1], k.fma(sc[3], hat(x, sc), k.plus(sc[2], h)))}
	}
	k.each("normGrad", shape{outs: 1, ins: 3, scalars: 4, unroll: 2}, "is out0 = s1*(in2*in1 + s2 + (in0+s0)*s1*s3).", func(in, sc regs) regs {
		return slope(in[0], k.times(in[1], in[2]), sc)
	})
	k.each("normGrad1", shape{outs: 1, ins: 2, scalars: 4, unroll: 2}, "is out0 = s1*(in1 + s2 + (in0+s0)*s1*s3).", func(in, sc regs) regs {
		return slope(in[0], in[1], sc)
	})
	k.each("addGrad", shape{outs: 1, ins: 3, scalars: 2, unroll: 2}, "is out0 = in0 + in2*(in1+s0)*s1.", func(in, sc regs) regs {
		return regs{k.fma(in[2], hat(in[1], sc), in[0])}
	})
}

// exponentials writes the kernels that are made of exp, of float32.
func (k *neon) exponentials() {
	of := func(in, sc regs) *neonReg { return k.exp(k.fma(sc[0], in[0], sc[1])) }
	k.reduce("expSum", shape{outs: 1, ins: 1, scalars: 2, unroll: 4}, 1, "zero", "is out0 = e^(in0*s0+s1), and returns its sum.", k.sum, func(in, sc, acc regs, rest keepLanes) regs {
		e := of(in, sc)
		k.into(fadd, acc[0], acc[0], rest(e, "zero"))
		return regs{e}
	})
	k.reduce("expTotal", shape{ins: 1, scalars: 2, unroll: 4}, 1, "zero", "returns the sum of e^(in0*s0+s1).", k.sum, func(in, sc, acc regs, rest keepLanes) regs {
		k.into(fadd, acc[0], acc[0], rest(of(in, sc), "zero"))
		return nil
	})
	k.each("dlogsm", shape{outs: 1, ins: 2, scalars: 1, unroll: 2}, "is out0 = in1 - e^in0*s0.", func(in, sc regs) regs {
		return regs{k.minus(in[1], k.times(sc[0], k.exp(in[0])))}
	})
}

// activations writes those of float32, with the formulas of math.go.
func (k *neon) activations() {
	unary := shape{outs: 1, ins: 1, unroll: 2}
	binary := shape{outs: 1, ins: 2, unroll: 2}
	for _, o := range []struct {
		name string
		f    func(x *neonReg) *neonReg
	}{
		{"exp", func(x *neonReg) *neonReg { return k.exp(x) }},
		{"tanh", k.tanh}, {"erf", k.erf}, {"sigmoid", k.sigmoid},
		{"silu", func(x *neonReg) *neonReg { return k.over(x, k.onePlusExpNeg(x)) }},
		{"gelu", func(x *neonReg) *neonReg { return k.times(x, k.cdf(x)) }},
		{"geluTanh", func(x *neonReg) *neonReg { u, _ := k.geluInner(x); return k.over(x, k.onePlusExpNeg(u)) }},
	} {
		k.each(o.name, unary, "is out0 = "+o.name+"(in0).", func(in, _ regs) regs { return regs{o.f(in[0])} })
	}
	for _, o := range []struct {
		name string
		f    func(a, dy *neonReg) *neonReg
	}{
		{"sigmoidGrad", func(y, dy *neonReg) *neonReg { return k.times(k.times(dy, y), k.minus(k.c("one"), y)) }},
		{"tanhGrad", func(y, dy *neonReg) *neonReg { return k.times(dy, k.minus(k.c("one"), k.times(y, y))) }},
		{"siluGrad", func(x, dy *neonReg) *neonReg {
			s, rest := k.logistic(x)
			return k.times(dy, k.times(s, k.fma(x, rest, k.c("one"))))
		}},
		{"geluGrad", func(x, dy *neonReg) *neonReg { return k.times(dy, k.fma(x, k.pdf(x), k.cdf(x))) }},
		{"geluTanhGrad", func(x, dy *neonReg) *neonReg {
			u, square := k.geluInner(x)
			s, rest := k.logistic(u)
			t := k.times(k.times(x, s), rest)
			return k.times(dy, k.fma(t, k.fma(k.c("gelu9"), square, k.c("gelu1")), s))
		}},
	} {
		k.each(o.name, binary, "is the gradient of "+o.name[:len(o.name)-4]+": in0 what it saves, in1 the gradient of its output.",
			func(in, _ regs) regs { return regs{o.f(in[0], in[1])} })
	}
	k.reduce("absMax", shape{ins: 1, unroll: 4}, 1, "minusInf", "returns the largest |in0|, NaN if one is.",
		func(a, b *neonReg) *neonReg { return k.two(fmax, a, b) },
		func(in, _, acc regs, _ keepLanes) regs {
			k.into(fmax, acc[0], acc[0], k.single(fabs, in[0]))
			return nil
		})
}

// exp returns eˣ = 2ⁿ·eʳ with n = round(x/ln2). 2ⁿ may lie outside of the normal numbers,
// so it is the product of two halves.
func (k *neon) exp(x *neonReg) *neonReg {
	x = k.two(fmax, k.two(fmin, x, k.c("expMax")), k.c("expMin"))
	n := k.single(frintn, k.times(x, k.c("log2e")))
	r := k.fma(n, k.c("ln2lo"), k.fma(n, k.c("ln2hi"), x))
	p := k.plus(k.fma(k.poly(r, expPoly...), k.times(r, r), r), k.c("one"))
	whole := k.single(fcvtns, n)
	half := k.shifted(whole, 1, false)
	halves := regs{half, k.two(isub, whole, half)}
	for _, e := range halves {
		p = k.times(p, k.shifted(k.two(iadd, e, k.c("bias")), 23, true))
	}
	return p
}

// onePlusExpNeg returns 1 + e⁻ˣ.
func (k *neon) onePlusExpNeg(x *neonReg) *neonReg {
	return k.plus(k.c("one"), k.exp(k.single(fneg, x)))
}

func (k *neon) sigmoid(x *neonReg) *neonReg { return k.over(k.c("one"), k.onePlusExpNeg(x)) }

// logistic returns the sigmoid s of x, and 1-s without the cancellation near s = 1.
func (k *neon) logistic(x *neonReg) (s, rest *neonReg) {
	e := k.exp(k.single(fneg, x))
	s = k.over(k.c("one"), k.plus(k.c("one"), e))
	left := k.two(fcmgt, k.c("zero"), x)
	return s, k.choose(left, k.minus(k.c("one"), s), k.times(e, s))
}

// tanh returns x + x³P(x²) near zero and 1 - 2/(e²ˣ+1) beyond.
func (k *neon) tanh(x *neonReg) *neonReg {
	a := k.single(fabs, x)
	e := k.plus(k.exp(k.plus(a, a)), k.c("one"))
	far := k.minus(k.c("one"), k.over(k.c("two"), e))
	s := k.times(a, a)
	near := k.plus(k.times(k.times(a, s), k.poly(s, tanhPoly...)), a)
	return k.signed(k.choose(k.two(fcmgt, k.c("tanhSplit"), a), near, far), x)
}

// signed returns r, which is positive, with the sign of x.
func (k *neon) signed(r, x *neonReg) *neonReg { return k.two(orr, r, k.two(and, x, k.c("sign"))) }

// erfParts returns |z|, erf(z) for |z| < 1, and erfc(|z|) for the others, as
// kern.erfParts.
func (k *neon) erfParts(z *neonReg) (abs, near, rest *neonReg) {
	abs = k.single(fabs, z)
	s := k.times(abs, abs)
	q := k.poly(k.two(fmin, abs, k.c("four")), erfcPoly...)
	rest = k.exp(k.single(fneg, k.two(fmax, s, q)))
	return abs, k.fma(k.poly(s, erfPoly...), z, z), rest
}

func (k *neon) erf(x *neonReg) *neonReg {
	abs, near, rest := k.erfParts(x)
	far := k.signed(k.minus(k.c("one"), rest), x)
	return k.choose(k.two(fcmgt, k.c("one"), abs), near, far)
}

// cdf returns Φ(x), the normal distribution, without loss of small values on the left.
func (k *neon) cdf(x *neonReg) *neonReg {
	abs, near, rest := k.erfParts(k.times(x, k.c("rootHalf")))
	near = k.fma(near, k.c("half"), k.c("half"))
	left := k.times(rest, k.c("half"))
	far := k.choose(k.two(fcmgt, k.c("zero"), x), left, k.minus(k.c("one"), left))
	return k.choose(k.two(fcmgt, k.c("one"), abs), near, far)
}

// pdf returns φ(x), the density of the normal distribution.
func (k *neon) pdf(x *neonReg) *neonReg {
	return k.times(k.c("pdf"), k.exp(k.times(k.c("minusHalf"), k.times(x, x))))
}

// geluInner returns 2√(2/π)(x+0.044715x³), and the square of x, bounded.
func (k *neon) geluInner(x *neonReg) (u, square *neonReg) {
	square = k.two(fmin, k.times(x, x), k.c("squareMax"))
	return k.times(x, k.fma(k.c("gelu3"), square, k.c("gelu1"))), square
}
