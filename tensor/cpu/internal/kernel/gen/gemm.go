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
	switch {
	case s.double && s.wide:
		transpose8Doubles(s)
	case s.double:
		transpose4Doubles(s)
	case s.wide:
		transpose16(s)
	default:
		transpose8(s)
	}
}

// tallest returns the most rows that tiles have, by vectors-1.
func (s isa) tallest() []int {
	if s.wide {
		return []int{14, 14, 9}
	}
	return []int{6, 6}
}

// tallestTaps returns the most rows of tiles whose rows of b lie anywhere.
func (s isa) tallestTaps() int {
	if s.wide {
		return 8
	}
	return 6
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

// taps writes tiles whose rows of b lie anywhere.
func taps(s isa) {
	for _, vecs := range []int{2, 1} {
		for mr := 1; mr <= s.tallestTaps(); mr++ {
			s.tile(mr, vecs, true)
		}
	}
	line(s)
	for vecs := s.windowVectors(); vecs > 0; vecs-- {
		window(s, vecs)
	}
	windowDots(s)
}

// lineVectors is the number of vectors of the tiles of one row of a, which read b in
// their multiplications.
const lineVectors = 8

// line writes a tile of taps of one row and many whole vectors: such a product has few
// additions that don't wait for each other unless it is wide.
func line(s isa) {
	s.text(fmt.Sprintf("line%d", lineVectors*s.lanes), "k int, a *float32, csA int, b *float32, at *int, c *float32, add int",
		fmt.Sprintf("is c = a*b, or c += a*b if add is not 0, for 1 row and %d columns, row q of b at b[at[q]].", lineVectors*s.lanes))
	k, a, csA := Load(Param("k"), GP64()), Load(Param("a"), GP64()), Load(Param("csA"), GP64())
	b, at, c, add := Load(Param("b"), GP64()), Load(Param("at"), GP64()), Load(Param("c"), GP64()), Load(Param("add"), GP64())
	acc := make([]reg.VecVirtual, lineVectors)
	for i := range acc {
		acc[i] = s.zero()
	}
	TESTQ(add, add)
	JZ(LabelRef("depth"))
	for i := range acc {
		VMOVUPS(Mem{Base: c, Disp: s.bytes() * i}, acc[i])
	}
	Label("depth")
	row, av := Mem{Base: b, Index: GP64(), Scale: 4}, s.vec()
	MOVQ(Mem{Base: at}, row.Index)
	ADDQ(U8(8), at)
	s.broadcast(Mem{Base: a}, av)
	ADDQ(csA, a)
	for i := range acc {
		VFMADD231PS(row.Offset(s.bytes()*i), av, acc[i])
	}
	DECQ(k)
	JNZ(LabelRef("depth"))
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: c, Disp: s.bytes() * i})
	}
	s.ret()
}

// windowVectors returns the most vectors of a tile of windows.
func (s isa) windowVectors() int {
	if s.wide {
		return 2
	}
	return 1
}

// window writes the tile of the gradient by the weights of windows of 3×3: nine rows of
// a, which are shifted views of one plane.
func window(s isa, vecs int) {
	const side = 3
	s.text(fmt.Sprintf("window%d", vecs*s.lanes), "rows, cols int, a *float32, csA, rsA, skip int, b *float32, rsB int, c *float32, ldc int",
		fmt.Sprintf("adds a*b to %d×%d numbers of c. Row %d*i+j of a begins j numbers into row i of the plane, whose rows are rsA bytes apart; its elements are csA bytes apart, with skip bytes more after each cols of them.", side*side, vecs*s.lanes, side))
	rows, cols := Load(Param("rows"), GP64()), Load(Param("cols"), GP64())
	a, csA, rsA, skip := Load(Param("a"), GP64()), Load(Param("csA"), GP64()), Load(Param("rsA"), GP64()), Load(Param("skip"), GP64())
	b, rsB := Load(Param("b"), GP64()), Load(Param("rsB"), GP64())
	acc := make([][]reg.VecVirtual, side*side)
	for i := range acc {
		for range vecs {
			acc[i] = append(acc[i], s.zero())
		}
	}
	Label("row")
	left := GP64()
	MOVQ(cols, left)
	Label("col")
	bv := make([]reg.VecVirtual, vecs)
	for j := range bv {
		bv[j] = s.vec()
		VMOVUPS(Mem{Base: b, Disp: s.bytes() * j}, bv[j])
	}
	for i, line := range []Mem{{Base: a}, {Base: a, Index: rsA, Scale: 1}, {Base: a, Index: rsA, Scale: 2}} {
		for j := range side {
			av := s.vec()
			s.broadcast(line.Offset(4*j), av)
			for v := range bv {
				s.addProduct(av, bv[v], acc[side*i+j][v])
			}
		}
	}
	ADDQ(csA, a)
	ADDQ(rsB, b)
	DECQ(left)
	JNZ(LabelRef("col"))
	ADDQ(skip, a)
	DECQ(rows)
	JNZ(LabelRef("row"))
	c, ldc := Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	for i := range acc {
		for v := range acc[i] {
			m := Mem{Base: c, Disp: s.bytes() * v}
			VADDPS(m, acc[i][v], acc[i][v])
			VMOVUPS(acc[i][v], m)
		}
		ADDQ(ldc, c)
	}
	s.ret()
}

// windowDots writes the same gradient for one output: each of the nine weights adds up in
// the lanes of a vector.
func windowDots(s isa) {
	const side = 3
	s.text("windowDots", "rows, cols int, a *float32, rsA, step int, b *float32, c *float32",
		fmt.Sprintf("adds to c[%d*i+j] the products of b, rows of cols numbers, and of the same numbers of a plane, j numbers into its row i, whose rows are rsA bytes apart; step is from row to row of the numbers.", side))
	rows, cols := Load(Param("rows"), GP64()), Load(Param("cols"), GP64()).(reg.GPVirtual)
	a, rsA, step, b := Load(Param("a"), GP64()), Load(Param("rsA"), GP64()), Load(Param("step"), GP64()), Load(Param("b"), GP64())
	acc := make([]reg.VecVirtual, side*side)
	for i := range acc {
		acc[i] = s.zero()
	}
	whole, part := GP64(), GP64()
	MOVQ(cols, whole)
	SHRQ(U8(log2(s.lanes)), whole)
	ANDQ(U8(s.lanes-1), cols)
	MOVQ(cols, part)
	t := s.newTail(cols, 1)
	p, n := GP64(), GP64()
	add := func(load func(m Mem, v reg.VecVirtual)) {
		bv := s.vec()
		load(Mem{Base: b}, bv)
		for i, line := range []Mem{{Base: p}, {Base: p, Index: rsA, Scale: 1}, {Base: p, Index: rsA, Scale: 2}} {
			for j := range side {
				av := s.vec()
				load(line.Offset(4*j), av)
				VFMADD231PS(av, bv, acc[side*i+j])
			}
		}
	}
	Label("row")
	MOVQ(a, p)
	MOVQ(whole, n)
	TESTQ(n, n)
	JZ(LabelRef("part"))
	Label("col")
	add(func(m Mem, v reg.VecVirtual) { VMOVUPS(m, v) })
	ADDQ(U8(s.bytes()), p)
	ADDQ(U8(s.bytes()), b)
	DECQ(n)
	JNZ(LabelRef("col"))
	Label("part")
	TESTQ(part, part)
	JZ(LabelRef("next"))
	add(func(m Mem, v reg.VecVirtual) { t.load(0, m, v) })
	LEAQ(Mem{Base: b, Index: part, Scale: 4}, b)
	Label("next")
	ADDQ(step, a)
	DECQ(rows)
	JNZ(LabelRef("row"))
	c, k := Load(Param("c"), GP64()), &kern{isa: s}
	for i := range acc {
		total := k.fold(acc[i], func(x, y vreg) vreg { return k.add(x, y) }).AsX()
		VADDSS(Mem{Base: c, Disp: 4 * i}, total, total)
		VMOVSS(total, Mem{Base: c, Disp: 4 * i})
	}
	s.ret()
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
			w.addProduct(av, bv[j], w.acc[i][j])
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
	alpha := w.scalar("alpha")
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
				w.addProduct(alpha, w.acc[i][j], old)
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
				w.scale(alpha, w.acc[i][j])
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

// transposeLoop writes the loop over blocks: rows of src in, rows of dst out.
func transposeLoop(s isa, body func(rows []reg.VecVirtual) []reg.VecVirtual) {
	s.text(fmt.Sprintf("transpose%d", s.lanes), fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, blocks int", s.elem()),
		fmt.Sprintf("transposes blocks > 0 blocks of %d×%d numbers, side by side in src, one below the other in dst; strides in bytes.", s.lanes, s.lanes))
	dst, ds := Load(Param("dst"), GP64()), Load(Param("ds"), GP64())
	src, ss := Load(Param("src"), GP64()), Load(Param("ss"), GP64())
	blocks := Load(Param("blocks"), GP64())
	Label("block")
	p := GP64()
	MOVQ(src, p)
	rows := make([]reg.VecVirtual, s.lanes)
	for i := range rows {
		rows[i] = s.vec()
		VMOVUPS(Mem{Base: p}, rows[i])
		ADDQ(ss, p)
	}
	for _, v := range body(rows) {
		VMOVUPS(v, Mem{Base: dst})
		ADDQ(ds, dst)
	}
	ADDQ(U8(s.bytes()), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	s.ret()
}

// quads interleaves four rows at a time: vector 4*i+j holds, in each 128-bit lane, column
// j of the lane of rows 4i to 4i+3. It works within the registers of the rows.
func quads(s isa, r []reg.VecVirtual) {
	for i := 0; i < len(r); i += 2 {
		lo := s.vec()
		VUNPCKLPS(r[i+1], r[i], lo)
		VUNPCKHPS(r[i+1], r[i], r[i+1])
		r[i] = lo
	}
	for i := 0; i < len(r); i += 4 {
		c0, c2 := s.vec(), s.vec()
		VUNPCKLPD(r[i+2], r[i], c0)
		VUNPCKHPD(r[i+2], r[i], r[i+2])
		VUNPCKLPD(r[i+3], r[i+1], c2)
		VUNPCKHPD(r[i+3], r[i+1], r[i+3])
		r[i], r[i+1], r[i+2] = c0, r[i+2], c2
	}
}

func transpose16(s isa) {
	transposeLoop(s, func(r []reg.VecVirtual) []reg.VecVirtual { return turn16(s, r) })
}

// turn16 returns the columns of 16 rows, whose registers it changes.
func turn16(s isa, r []reg.VecVirtual) []reg.VecVirtual {
	quads(s, r)
	// Column 4q+j is lane q of r[j], r[4+j], r[8+j], r[12+j].
	out := make([]reg.VecVirtual, 16)
	for j := range 4 {
		for q, v := range fourLanes(r[j], r[4+j], r[8+j], r[12+j]) {
			out[4*q+j] = v
		}
	}
	return out
}

// fourLanes returns vectors of which q holds the 128-bit lanes q of all r.
func fourLanes(r ...reg.VecVirtual) (out [4]reg.VecVirtual) {
	var even, odd [2]reg.VecVirtual
	for h := range even {
		even[h], odd[h] = ZMM(), ZMM()
		VSHUFF32X4(U8(0x88), r[2*h+1], r[2*h], even[h]) // lanes 0, 2 of both
		VSHUFF32X4(U8(0xdd), r[2*h+1], r[2*h], odd[h])  // lanes 1, 3
	}
	for q, half := range [][2]reg.VecVirtual{even, odd} {
		out[q], out[q+2] = ZMM(), ZMM()
		VSHUFF32X4(U8(0x88), half[1], half[0], out[q])
		VSHUFF32X4(U8(0xdd), half[1], half[0], out[q+2])
	}
	return out
}

// pairs interleaves two rows of float64 at a time: vector 2*i+j holds, in each 128-bit
// lane, column j of the lane of rows 2i and 2i+1.
func pairs(s isa, r []reg.VecVirtual) {
	for i := 0; i < len(r); i += 2 {
		lo := s.vec()
		VUNPCKLPD(r[i+1], r[i], lo)
		VUNPCKHPD(r[i+1], r[i], r[i+1])
		r[i] = lo
	}
}

func transpose8Doubles(s isa) {
	transposeLoop(s, func(r []reg.VecVirtual) []reg.VecVirtual {
		pairs(s, r)
		// Column 2q+j is lane q of r[j], r[2+j], r[4+j], r[6+j].
		out := make([]reg.VecVirtual, 8)
		for j := range 2 {
			for q, v := range fourLanes(r[j], r[2+j], r[4+j], r[6+j]) {
				out[2*q+j] = v
			}
		}
		return out
	})
}

func transpose4Doubles(s isa) {
	transposeLoop(s, func(r []reg.VecVirtual) []reg.VecVirtual {
		pairs(s, r)
		out := make([]reg.VecVirtual, 4)
		for j := range 2 {
			lo := YMM()
			VPERM2F128(U8(0x20), r[2+j], r[j], lo)
			VPERM2F128(U8(0x31), r[2+j], r[j], r[2+j])
			out[j], out[2+j] = lo, r[2+j]
		}
		return out
	})
}

func transpose8(s isa) {
	transposeLoop(s, func(r []reg.VecVirtual) []reg.VecVirtual {
		quads(s, r)
		out := make([]reg.VecVirtual, 8)
		for j := range 4 {
			lo := YMM()
			VPERM2F128(U8(0x20), r[4+j], r[j], lo)
			VPERM2F128(U8(0x31), r[4+j], r[j], r[4+j])
			out[j], out[4+j] = lo, r[4+j]
		}
		return out
	})
}
