package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowLoop writes a kernel over rows of n > 0 elements, with pointers that advance by a
// stride of bytes from row to row, or stay.
type rowLoop struct {
	*kern
	name  string
	ptrs  map[string]reg.GPVirtual
	whole reg.GPVirtual // vectors of a row that aren't its last
	last  tail          // the lanes of its last vector, 1 or more
	at    reg.GPVirtual // bytes into the row
	loops int
}

// cell is one vector of a row while a sweep is written.
type cell struct {
	l    *rowLoop
	part bool // the last
}

// rowKernel writes a kernel. Strided pointers have an argument of their name followed by
// S; fixed ones don't move. grow, if not empty, names an argument by which the length of
// the row grows from row to row.
func (k *kern) rowKernel(name, doc string, strided, fixed, scalars []string, grow bool, prepare, row func(l *rowLoop)) {
	rowNames = append(rowNames, name)
	args := "rows int, n int"
	if grow {
		args += ", grow int, most int"
	}
	for _, p := range strided {
		args += fmt.Sprintf(", %s *float32, %sS int", p, p)
	}
	for _, p := range fixed {
		args += fmt.Sprintf(", %s *float32", p)
	}
	for _, s := range scalars {
		args += fmt.Sprintf(", %s float32", s)
	}
	k.text(name, args, doc)
	l := &rowLoop{kern: k, name: name, ptrs: map[string]reg.GPVirtual{}}
	for _, p := range append(append([]string{}, strided...), fixed...) {
		l.ptrs[p] = Load(Param(p), GP64()).(reg.GPVirtual)
	}
	l.at = GP64()
	l.whole = GP64()
	var n reg.GPVirtual
	measure := func() {
		lanes := GP64()
		MOVQ(n, l.whole)
		DECQ(l.whole)
		MOVQ(l.whole, lanes)
		SHRQ(U8(map[bool]int{true: 4, false: 3}[k.wide]), l.whole)
		ANDQ(U8(k.lanes-1), lanes)
		INCQ(lanes)
		l.last = k.newTail(lanes, 1)
	}
	n = Load(Param("n"), GP64()).(reg.GPVirtual)
	if !grow {
		measure()
	}
	prepare(l)
	Label("row")
	if grow {
		measure()
	}
	row(l)
	for _, p := range strided {
		stride, err := Param(p + "S").Resolve()
		if err != nil {
			panic(err)
		}
		ADDQ(stride.Addr, l.ptrs[p])
	}
	if grow {
		by, err := Param("grow").Resolve()
		if err != nil {
			panic(err)
		}
		most := Load(Param("most"), GP64())
		ADDQ(by.Addr, n)
		CMPQ(n, most)
		CMOVQGT(most, n)
	}
	rows, err := Param("rows").Resolve()
	if err != nil {
		panic(err)
	}
	DECQ(rows.Addr)
	JNZ(LabelRef("row"))
	k.ret()
}

// sweep writes a loop over the vectors of the row.
func (l *rowLoop) sweep(body func(c cell)) {
	l.loops++
	loop, last := fmt.Sprint("sweep", l.loops), fmt.Sprint("last", l.loops)
	count := GP64()
	XORQ(l.at, l.at)
	MOVQ(l.whole, count)
	TESTQ(count, count)
	JZ(LabelRef(last))
	Label(loop)
	body(cell{l, false})
	ADDQ(U8(l.bytes()), l.at)
	DECQ(count)
	JNZ(LabelRef(loop))
	Label(last)
	body(cell{l, true})
}

func (c cell) mem(name string) Mem { return Mem{Base: c.l.ptrs[name], Index: c.l.at, Scale: 1} }

// load reads the vector of a pointer, with zeros beyond the end of the row.
func (c cell) load(name string) vreg {
	v := c.l.vec()
	if c.part {
		c.l.last.load(0, c.mem(name), v)
	} else {
		VMOVUPS(c.mem(name), v)
	}
	return v
}

func (c cell) store(name string, v vreg) {
	if c.part {
		c.l.last.store(0, v, c.mem(name))
	} else {
		VMOVUPS(v, c.mem(name))
	}
}

// rest returns v with a constant in the lanes beyond the end.
func (c cell) rest(v vreg, constant string) vreg {
	if !c.part {
		return v
	}
	return c.l.sel(c.l.last.mask(), v, c.l.mut(constant))
}

// total returns the sum of the lanes of v, in all lanes.
func (l *rowLoop) total(v vreg) vreg {
	return l.fold(v, func(a, b vreg) vreg { return l.add(b, a) })
}

// inverse returns 1/√(v/n + eps) in all lanes, in double precision but for v/n, as rstd
// of rows.go.
func (l *rowLoop) inverse(v, n vreg) vreg {
	mean, d, e := l.div(v, n), XMM(), XMM()
	eps, err := Param("eps").Resolve()
	if err != nil {
		panic(err)
	}
	VXORPS(d, d, d)
	VCVTSS2SD(mean.AsX(), d, d)
	VXORPS(e, e, e)
	VCVTSS2SD(eps.Addr, e, e)
	VADDSD(e, d, d)
	VSQRTSD(d, d, d)
	VMOVSD(at("oneDouble"), e)
	VDIVSD(d, e, d)
	VCVTSD2SS(d, d, d)
	v = l.vec()
	VBROADCASTSS(d, v)
	return v
}

// length returns n as a number in all lanes.
func (l *rowLoop) length() vreg {
	x, v := XMM(), l.vec()
	n, err := Param("n").Resolve()
	if err != nil {
		panic(err)
	}
	VXORPS(x, x, x)
	VCVTSI2SSQ(n.Addr, x, x)
	VBROADCASTSS(x, v)
	return v
}

func rowKernels(k *kern) {
	normRows(k)
	softmaxRows(k)
	var sign vreg
	k.rowKernel("ropeRows", "is rope of rows: lo and hi from a and b, with the tables cos and sin.", []string{"lo", "hi", "a", "b", "cos", "sin"}, nil, []string{"sign"}, false,
		func(*rowLoop) { sign = k.scalar("sign") },
		func(l *rowLoop) {
			l.sweep(func(c cell) {
				a, b, cos, sin := c.load("a"), c.load("b"), c.load("cos"), k.mul(sign, c.load("sin"))
				lo, hi := k.mul(cos, a), k.mul(cos, b)
				VFNMADD231PS(sin, b, lo)
				VFMADD231PS(sin, a, hi)
				c.store("lo", lo)
				c.store("hi", hi)
			})
		})
}

func normRows(k *kern) {
	k.hoisted = nil
	for _, centred := range []bool{false, true} {
		for _, grad := range []string{"", "x", "xw"} {
			name, fixed, strided := "rmsNorm", []string{"w"}, []string{"dst", "x"}
			if centred {
				name = "layerNorm"
			}
			doc := "is " + name + " of rows."
			switch {
			case grad == "" && centred:
				fixed = append(fixed, "b")
			case grad != "":
				strided = append(strided, "dy")
				name, doc = name+"Grad", "stores the gradient by x of "+name+" of rows in dst."
			}
			if grad == "xw" {
				name, doc = name+"Both", "stores the gradient by x of "+name+" of rows in dst and adds those by the weights to dw"
				fixed = append(fixed, "dw")
				if centred {
					fixed, doc = append(fixed, "db"), doc+" and db"
				}
				doc += "."
			}
			var n vreg
			k.rowKernel(name+"Rows", doc, strided, fixed, []string{"eps"}, false,
				func(l *rowLoop) { n = l.length() },
				func(l *rowLoop) { normRow(l, n, centred, grad) })
		}
	}
}

// normRow writes the code of one row.
func normRow(l *rowLoop, n vreg, centred bool, grad string) {
	k := l.kern
	mean := vreg(nil)
	if centred {
		mean = k.mut("zero")
		l.sweep(func(c cell) { VADDPS(c.load("x"), mean, mean) })
		mean = k.div(l.total(mean), n)
	}
	square := k.mut("zero")
	sum1, sum2 := vreg(nil), vreg(nil)
	if grad != "" {
		sum1, sum2 = k.mut("zero"), k.mut("zero")
	}
	// The sums of h = dy*w and of h*(x-mean) need no rstd.
	l.sweep(func(c cell) {
		d := c.load("x")
		if centred {
			d = c.rest(k.sub(d, mean), "zero")
		}
		VFMADD231PS(d, d, square)
		if grad != "" {
			h := k.mul(c.load("w"), c.load("dy"))
			VFMADD231PS(h, d, sum2)
			if centred {
				VADDPS(h, sum1, sum1)
			}
		}
	})
	r := l.inverse(l.total(square), n)
	hat := func(c cell) vreg {
		d := c.load("x")
		if centred {
			d = k.sub(d, mean)
		}
		return k.mul(r, d)
	}
	if grad == "" {
		l.sweep(func(c cell) {
			w := c.load("w")
			if centred {
				c.store("dst", k.fma(w, hat(c), c.load("b")))
				return
			}
			c.store("dst", k.mul(w, hat(c)))
		})
		return
	}
	// dst = r*(h - Σh/n - x̂*Σ(h*x̂)/n)
	c2 := k.div(k.mul(r, l.total(sum2)), n)
	c1 := vreg(nil)
	if centred {
		c1 = k.div(l.total(sum1), n)
	}
	l.sweep(func(c cell) {
		x, dy := hat(c), c.load("dy")
		h := k.mul(c.load("w"), dy)
		if centred {
			h = k.sub(h, c1)
		}
		VFNMADD231PS(c2, x, h)
		if grad == "xw" {
			dw := c.load("dw")
			VFMADD231PS(x, dy, dw)
			c.store("dw", dw)
			if centred {
				c.store("db", k.add(dy, c.load("db")))
			}
		}
		c.store("dst", k.mul(r, h))
	})
}

func softmaxRows(k *kern) {
	var scale vreg
	prepare := func(*rowLoop) { scale = k.scalar("scale") }
	k.rowKernel("softmaxRows", "is softmax of x*scale by rows, each grow elements longer than the one before but at most most.", []string{"dst", "x"}, nil, []string{"scale"}, true,
		func(l *rowLoop) {
			k.hoist(expHoist...)
			prepare(l)
		},
		func(l *rowLoop) {
			// This maximum may lose a NaN. The exponential of the NaN makes the sum NaN
			// all the same.
			pick := func(a, b vreg) vreg { return k.op(VMAXPS, b, a) }
			top := k.mut("minusInf")
			l.sweep(func(c cell) { VMOVAPS(pick(top, c.rest(c.load("x"), "minusInf")), top) })
			shift := k.neg(k.mul(scale, k.fold(top, pick)))
			sum := k.mut("zero")
			l.sweep(func(c cell) {
				e := k.exp(k.fma(scale, c.load("x"), shift))
				c.store("dst", e)
				VADDPS(c.rest(e, "zero"), sum, sum)
			})
			inv := k.div(k.mut("one"), l.total(sum))
			l.sweep(func(c cell) { c.store("dst", k.mul(inv, c.load("dst"))) })
		})
	k.rowKernel("logSumRows", "stores x less its largest number by rows in dst, and the sum of the exponentials of that in sum.", []string{"dst", "x", "sum"}, nil, nil, false,
		func(*rowLoop) { k.hoist(expHoist...) },
		func(l *rowLoop) {
			// As in softmaxRows a NaN that is lost here makes the sum NaN.
			pick := func(a, b vreg) vreg { return k.op(VMAXPS, b, a) }
			top := k.mut("minusInf")
			l.sweep(func(c cell) { VMOVAPS(pick(top, c.rest(c.load("x"), "minusInf")), top) })
			top = k.fold(top, pick)
			sum := k.mut("zero")
			l.sweep(func(c cell) {
				d := k.sub(c.load("x"), top)
				c.store("dst", d)
				VADDPS(c.rest(k.exp(d), "zero"), sum, sum)
			})
			VMOVSS(l.total(sum).AsX(), Mem{Base: l.ptrs["sum"]})
		})
	k.hoisted = nil
	k.rowKernel("lessRows", "is dst less a number by rows.", []string{"dst", "by"}, nil, nil, false,
		func(*rowLoop) {},
		func(l *rowLoop) {
			by := k.vec()
			VBROADCASTSS(Mem{Base: l.ptrs["by"]}, by)
			l.sweep(func(c cell) { c.store("dst", k.sub(c.load("dst"), by)) })
		})
	k.rowKernel("softmaxGradRows", "is the gradient of softmaxRows, p being its result and dp that one's gradient.", []string{"dst", "p", "dp"}, nil, []string{"scale"}, true,
		prepare,
		func(l *rowLoop) {
			dot := k.mut("zero")
			l.sweep(func(c cell) { VFMADD231PS(c.load("p"), c.load("dp"), dot) })
			dot = l.total(dot)
			l.sweep(func(c cell) {
				c.store("dst", k.mul(c.load("p"), k.mul(scale, k.sub(c.load("dp"), dot))))
			})
		})
}
