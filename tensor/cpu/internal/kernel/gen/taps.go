package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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

// tallestTaps returns the most rows of tiles whose rows of b lie anywhere.
func (s isa) tallestTaps() int {
	if s.wide {
		return 8
	}
	return 6
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
	a, csA := Load(Param("a"), GP64()).(reg.GPVirtual), Load(Param("csA"), GP64())
	rsA, skip := Load(Param("rsA"), GP64()).(reg.GPVirtual), Load(Param("skip"), GP64())
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
	for i, line := range rowAddress(a, rsA, side) {
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
	a, rsA := Load(Param("a"), GP64()), Load(Param("rsA"), GP64()).(reg.GPVirtual)
	step, b := Load(Param("step"), GP64()), Load(Param("b"), GP64())
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
		for i, line := range rowAddress(p, rsA, side) {
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
