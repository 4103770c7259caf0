package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemm writes the inner tiles of a matrix product and the packing of its operands.
func gemm(s isa) {
	for _, vecs := range []int{2, 1} {
		for mr := 1; mr <= s.tallest()[vecs-1]; mr++ {
			s.tile(mr, vecs, false)
		}
	}
	s.pack(1)
	s.pack(2)
	if s.wide {
		for mr := 1; mr <= s.tallest()[2]; mr++ {
			s.tile(mr, 3, false)
		}
		s.pack(3)
	}
	transpose(s, s.numberBytes())
	if !s.double {
		transpose(s, 2)
		transpose(s, 1)
	}
}

// gemmIntegers writes the tiles of products of integers of 32 and 64 bits.
func gemmIntegers(s isa) {
	for _, of := range []isa{s.integers(), s.doubles().integers()} {
		for vecs, rows := range of.tallest() {
			for mr := 1; mr <= rows; mr++ {
				of.tile(mr, vecs+1, false)
			}
		}
		wordProducts(of)
	}
	byteProducts(s)
}

// tallest returns the most rows that tiles have, by vectors-1. Multiplications of
// integers take so long that a core loads the operands of small tiles meanwhile.
func (s isa) tallest() []int {
	switch {
	case s.ints:
		return []int{4, 4}
	case s.wide:
		return []int{14, 14, 9}
	}
	return []int{6, 6}
}

// rowAddress returns the addresses of rows 0 to n-1 of a matrix, as base plus multiples
// of the stride: registers for the odd multiples, scaled indices for the others.
func rowAddress(base, stride reg.GPVirtual, n int) []Mem {
	odd := map[int]reg.GPVirtual{1: stride}
	at := []Mem{{Base: base}}
	for i := 1; i < n; i++ {
		m, scale := i, 1
		for m%2 == 0 {
			m, scale = m/2, scale*2
		}
		if _, ok := odd[m]; !ok {
			// m is smaller + 2^q, where smaller is an odd number seen before.
			q := 2
			for 2*q < m {
				q *= 2
			}
			odd[m] = GP64()
			LEAQ(Mem{Base: odd[m-q], Index: stride, Scale: uint8(q)}, odd[m])
		}
		at = append(at, Mem{Base: base, Index: odd[m], Scale: uint8(scale)})
	}
	return at
}

// tileWriter writes a tile of mr rows and vecs vectors.
type tileWriter struct {
	isa
	mr, vecs int
	taps     bool
	k        reg.GPVirtual // steps that are left
	rows     []Mem         // of a
	a, csA   reg.Register
	b        reg.Register
	rsB      reg.Register // unless taps
	at       reg.Register // the next tap, if taps
	acc      [][]reg.VecVirtual
	// ahead and apart walk through the rows of c, which are fetched before they are
	// stored.
	ahead, apart reg.Register
}

// tile writes one tile. With taps row q of b begins at b[at[q]] instead of q*rsB bytes
// into it.
func (s isa) tile(mr, vecs int, taps bool) {
	name, rsName, where := "tile", "rsB int", ""
	if taps {
		name, rsName, where = "taps", "at *int", ", row q of b at b[at[q]]"
	}
	s.text(fmt.Sprintf("%s%dx%d", name, mr, vecs*s.lanes),
		fmt.Sprintf("k int, a *%[1]s, rsA, csA int, b *%[1]s, %[2]s, c *%[1]s, ldc int, alpha %[1]s, cols int, add int", s.elem(), rsName),
		fmt.Sprintf("is c = alpha*a*b, or c += alpha*a*b if add is not 0, for %d rows and cols ≤ %d columns%s.", mr, vecs*s.lanes, where))
	w := &tileWriter{isa: s, mr: mr, vecs: vecs, taps: taps}
	w.k = Load(Param("k"), GP64()).(reg.GPVirtual)
	a := Load(Param("a"), GP64()).(reg.GPVirtual)
	rsA := Load(Param("rsA"), GP64()).(reg.GPVirtual)
	w.a, w.csA = a, Load(Param("csA"), GP64())
	w.b = Load(Param("b"), GP64())
	if taps {
		w.at = Load(Param("at"), GP64())
	} else {
		w.rsB = Load(Param("rsB"), GP64())
	}
	w.rows = rowAddress(a, rsA, mr)
	w.acc = make([][]reg.VecVirtual, mr)
	for i := range w.acc {
		for range vecs {
			w.acc[i] = append(w.acc[i], s.zero())
		}
	}
	w.ahead, w.apart = Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	if vecs > 2 {
		w.fours()
	} else {
		w.ones()
	}
	w.result()
}

// fetch asks for a row of c.
func (w *tileWriter) fetch() {
	for j := range w.vecs {
		PREFETCHT0(Mem{Base: w.ahead, Disp: w.bytes() * j})
	}
	ADDQ(w.apart, w.ahead)
}

// add adds a row of b, times a column of a, to the accumulators.
func (w *tileWriter) add(row Mem) {
	bv := make([]reg.VecVirtual, w.vecs)
	for j := range bv {
		bv[j] = w.vec()
		VMOVUPS(row.Offset(w.bytes()*j), bv[j])
	}
	for i := range w.acc {
		av := w.vec()
		w.broadcast(w.rows[i], av)
		for j := range bv {
			if w.pairs {
				addPairs(av, bv[j], w.acc[i][j])
			} else {
				w.addProduct(av, bv[j], w.acc[i][j])
			}
		}
	}
	ADDQ(w.csA, w.a)
}

// ones writes the loop over k, one step at a time.
func (w *tileWriter) ones() {
	for range w.mr {
		w.fetch()
	}
	Label("depth")
	row := Mem{Base: w.b}
	if w.taps {
		row.Index, row.Scale = GP64(), 4
		MOVQ(Mem{Base: w.at}, row.Index)
		ADDQ(U8(8), w.at)
	}
	// packed rows of b follow each other: this is the one eight steps later
	if !w.taps && w.mr > 8 {
		for j := range w.vecs {
			PREFETCHT0(row.Offset(w.bytes() * (8*w.vecs + j)))
		}
	}
	w.add(row)
	if !w.taps {
		ADDQ(w.rsB, w.b)
	}
	DECQ(w.k)
	JNZ(LabelRef("depth"))
}

// fours writes the loop over k, four steps at a time. The first of them fetch a row of c
// each: a core has too few fill buffers for all of c at once, and b would wait.
func (w *tileWriter) fours() {
	third, fourth := GP64(), GP64()
	LEAQ(Mem{Base: w.rsB, Index: w.rsB, Scale: 2}, third)
	MOVQ(w.rsB, fourth)
	SHLQ(U8(2), fourth)
	four := func() {
		w.add(Mem{Base: w.b})
		w.add(Mem{Base: w.b, Index: w.rsB, Scale: 1})
		w.add(Mem{Base: w.b, Index: w.rsB, Scale: 2})
		w.add(Mem{Base: w.b, Index: third, Scale: 1})
		ADDQ(fourth, w.b)
	}
	n, first := GP64(), GP64()
	MOVQ(w.k, n)
	SHRQ(U8(2), n)
	JZ(LabelRef("rest"))
	MOVQ(U32(uint32(w.mr)), first)
	CMPQ(n, first)
	CMOVQLT(n, first)
	SUBQ(first, n)
	Label("ahead")
	w.fetch()
	four()
	DECQ(first)
	JNZ(LabelRef("ahead"))
	TESTQ(n, n)
	JZ(LabelRef("rest"))
	Label("depth")
	four()
	DECQ(n)
	JNZ(LabelRef("depth"))
	Label("rest")
	ANDQ(U8(3), w.k)
	JZ(LabelRef("end"))
	Label("one")
	w.add(Mem{Base: w.b})
	ADDQ(w.rsB, w.b)
	DECQ(w.k)
	JNZ(LabelRef("one"))
	Label("end")
}

// result scales the accumulators and stores them.
func (w *tileWriter) result() {
	var alpha reg.VecVirtual
	if !w.ints { // integers have no factor
		alpha = w.scalar("alpha")
	}
	c := Load(Param("c"), GP64())
	ldc := Load(Param("ldc"), GP64())
	cols := Load(Param("cols"), GP64()).(reg.GPVirtual)
	add := Load(Param("add"), GP64())
	// each writes the loop over the tile, with or without the old value.
	each := func(label string, load func(j int, m Mem, v reg.VecVirtual), store func(j int, v reg.VecVirtual, m Mem)) {
		TESTQ(add, add)
		JZ(LabelRef(label))
		p := GP64()
		MOVQ(c, p)
		for i := range w.acc {
			for j := range w.acc[i] {
				old := w.vec()
				m := Mem{Base: p, Disp: w.bytes() * j}
				load(j, m, old)
				if w.ints {
					addIntegers(w.isa, w.acc[i][j], old)
				} else {
					w.addProduct(alpha, w.acc[i][j], old)
				}
				store(j, old, m)
			}
			if i+1 < w.mr {
				ADDQ(ldc, p)
			}
		}
		w.ret()
		Label(label)
		for i := range w.acc {
			for j := range w.acc[i] {
				if !w.ints {
					w.scale(alpha, w.acc[i][j])
				}
				store(j, w.acc[i][j], Mem{Base: c, Disp: w.bytes() * j})
			}
			if i+1 < w.mr {
				ADDQ(ldc, c)
			}
		}
		w.ret()
	}
	if w.wide { // masks are as fast as whole vectors
		t := w.newTail(cols, w.vecs)
		each("set", t.load, t.store)
		return
	}
	CMPQ(cols, U32(uint32(w.vecs*w.lanes)))
	JNE(LabelRef("part"))
	each("set",
		func(_ int, m Mem, v reg.VecVirtual) { VMOVUPS(m, v) },
		func(_ int, v reg.VecVirtual, m Mem) { VMOVUPS(v, m) })
	Label("part")
	t := w.newTail(cols, w.vecs)
	each("setpart", t.load, t.store)
}

func (s isa) pack(vecs int) {
	width := vecs * s.lanes
	s.text(fmt.Sprintf("pack%d", width), fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, rows, cols int", s.elem()),
		fmt.Sprintf("copies rows of cols ≤ %d numbers, filling each up to %d with zeros; rows > 0, strides in bytes.", width, width))
	dst, ds := Load(Param("dst"), GP64()), Load(Param("ds"), GP64())
	src, ss := Load(Param("src"), GP64()), Load(Param("ss"), GP64())
	rows := Load(Param("rows"), GP64())
	t := s.newTail(Load(Param("cols"), GP64()).(reg.GPVirtual), vecs)
	v := make([]reg.VecVirtual, vecs)
	Label("row")
	for i := range v {
		v[i] = s.vec()
		t.load(i, Mem{Base: src, Disp: s.bytes() * i}, v[i])
	}
	for i := range v {
		VMOVUPS(v[i], Mem{Base: dst, Disp: s.bytes() * i})
	}
	ADDQ(ss, src)
	ADDQ(ds, dst)
	DECQ(rows)
	JNZ(LabelRef("row"))
	s.ret()
}
