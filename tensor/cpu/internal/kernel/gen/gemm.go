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
		transpose16(s)
	} else {
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

// rowAddress returns where rows 0 to n-1 of a matrix are, as base plus multiples of the stride: registers for the odd
// multiples, scaled indices for the others.
func rowAddress(base, stride reg.GPVirtual, n int) []Mem {
	odd := map[int]reg.GPVirtual{1: stride}
	at := []Mem{{Base: base}}
	for i := 1; i < n; i++ {
		m, scale := i, 1
		for m%2 == 0 {
			m, scale = m/2, scale*2
		}
		if _, ok := odd[m]; !ok {
			// m is smaller + 2^q, of which the smaller is an odd number seen before.
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
}

// tile writes one tile. With taps row q of b begins at b[at[q]] instead of q*rsB bytes into it.
func (s isa) tile(mr, vecs int, taps bool) {
	name, rsName, where := "tile", "rsB int", ""
	if taps {
		name, rsName, where = "taps", "at *int", ", row q of b at b[at[q]]"
	}
	s.text(fmt.Sprintf("%s%dx%d", name, mr, vecs*s.lanes),
		"k int, a *float32, rsA, csA int, b *float32, "+rsName+", c *float32, ldc int, alpha float32, cols int, add int",
		fmt.Sprintf("is c = alpha*a*b, or c += alpha*a*b if add is not 0, for %d rows and cols ≤ %d columns%s.", mr, vecs*s.lanes, where))
	k := Load(Param("k"), GP64()).(reg.GPVirtual)
	a := Load(Param("a"), GP64()).(reg.GPVirtual)
	rsA := Load(Param("rsA"), GP64()).(reg.GPVirtual)
	csA := Load(Param("csA"), GP64())
	b := Load(Param("b"), GP64())
	var next, rsB reg.Register // of the tap; of the row
	if taps {
		next = Load(Param("at"), GP64())
	} else {
		rsB = Load(Param("rsB"), GP64())
	}
	rows := rowAddress(a, rsA, mr)
	acc := make([][]reg.VecVirtual, mr)
	for i := range acc {
		for range vecs {
			acc[i] = append(acc[i], s.zero())
		}
	}

	ahead, apart := Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	fetch := func() { // what is stored at the end comes meanwhile
		for j := range vecs {
			PREFETCHT0(Mem{Base: ahead, Disp: s.bytes() * j})
		}
		ADDQ(apart, ahead)
	}
	// step adds a row of b, times a column of a.
	step := func(row Mem) {
		bv := make([]reg.VecVirtual, vecs)
		for j := range bv {
			bv[j] = s.vec()
			VMOVUPS(row.Offset(s.bytes()*j), bv[j])
		}
		for i := range acc {
			av := s.vec()
			VBROADCASTSS(rows[i], av)
			for j := range bv {
				VFMADD231PS(av, bv[j], acc[i][j])
			}
		}
		ADDQ(csA, a)
	}

	if vecs > 2 {
		fours(k, mr, b, rsB, fetch, step)
	} else {
		for range mr {
			fetch()
		}
		Label("depth")
		row := Mem{Base: b}
		if taps {
			row.Index, row.Scale = GP64(), 4
			MOVQ(Mem{Base: next}, row.Index)
			ADDQ(U8(8), next)
		}
		if !taps && mr > 8 { // packed rows of b follow each other: this is the one eight steps later
			for j := range vecs {
				PREFETCHT0(row.Offset(s.bytes() * (8*vecs + j)))
			}
		}
		step(row)
		if !taps {
			ADDQ(rsB, b)
		}
		DECQ(k)
		JNZ(LabelRef("depth"))
	}

	alpha := s.scalar("alpha")
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
		for i := range acc {
			for j := range acc[i] {
				old := s.vec()
				m := Mem{Base: p, Disp: s.bytes() * j}
				load(j, m, old)
				VFMADD231PS(alpha, acc[i][j], old)
				store(j, old, m)
			}
			if i+1 < mr {
				ADDQ(ldc, p)
			}
		}
		s.ret()
		Label(label)
		for i := range acc {
			for j := range acc[i] {
				VMULPS(alpha, acc[i][j], acc[i][j])
				store(j, acc[i][j], Mem{Base: c, Disp: s.bytes() * j})
			}
			if i+1 < mr {
				ADDQ(ldc, c)
			}
		}
		s.ret()
	}
	if s.wide { // masks are as fast as whole vectors
		t := s.newTail(cols, vecs)
		each("set", t.load, t.store)
		return
	}
	CMPQ(cols, U32(uint32(vecs*s.lanes)))
	JNE(LabelRef("part"))
	each("set",
		func(_ int, m Mem, v reg.VecVirtual) { VMOVUPS(m, v) },
		func(_ int, v reg.VecVirtual, m Mem) { VMOVUPS(v, m) })
	Label("part")
	// The table starts 16 lanes before the first that is not set, whatever the number of vectors.
	t := s.newTail(cols, vecs)
	each("setpart", t.load, t.store)
}

// fours writes the loop over k, four steps at a time. The first of them fetch a row of c each: a core has too few fill
// buffers for all of c at once, and b would wait.
func fours(k reg.GPVirtual, mr int, b, rsB reg.Register, fetch func(), step func(row Mem)) {
	third, fourth := GP64(), GP64()
	LEAQ(Mem{Base: rsB, Index: rsB, Scale: 2}, third)
	MOVQ(rsB, fourth)
	SHLQ(U8(2), fourth)
	four := func() {
		step(Mem{Base: b})
		step(Mem{Base: b, Index: rsB, Scale: 1})
		step(Mem{Base: b, Index: rsB, Scale: 2})
		step(Mem{Base: b, Index: third, Scale: 1})
		ADDQ(fourth, b)
	}
	n, first := GP64(), GP64()
	MOVQ(k, n)
	SHRQ(U8(2), n)
	JZ(LabelRef("rest"))
	MOVQ(U32(uint32(mr)), first)
	CMPQ(n, first)
	CMOVQLT(n, first)
	SUBQ(first, n)
	Label("ahead")
	fetch()
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
	ANDQ(U8(3), k)
	JZ(LabelRef("end"))
	Label("one")
	step(Mem{Base: b})
	ADDQ(rsB, b)
	DECQ(k)
	JNZ(LabelRef("one"))
	Label("end")
}

func (s isa) pack(vecs int) {
	width := vecs * s.lanes
	s.text(fmt.Sprintf("pack%d", width), "dst *float32, ds int, src *float32, ss int, rows, cols int",
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

const transposeArgs = "dst *float32, ds int, src *float32, ss int, blocks int"

// transposeLoop writes the loop over blocks: rows of src in, rows of dst out.
func transposeLoop(s isa, body func(rows []reg.VecVirtual) []reg.VecVirtual) {
	s.text(fmt.Sprintf("transpose%d", s.lanes), transposeArgs,
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

// quads interleaves four rows at a time: vector 4*i+j holds, in each 128-bit lane, column j of the lane of rows 4i to
// 4i+3. It works within the registers of the rows.
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
	transposeLoop(s, func(r []reg.VecVirtual) []reg.VecVirtual {
		quads(s, r)
		// Column 4q+j is lane q of r[j], r[4+j], r[8+j], r[12+j].
		out := make([]reg.VecVirtual, 16)
		for j := range 4 {
			var even, odd [2]reg.VecVirtual
			for h := range even {
				even[h], odd[h] = ZMM(), ZMM()
				VSHUFF32X4(U8(0x88), r[8*h+4+j], r[8*h+j], even[h]) // lanes 0, 2 of both
				VSHUFF32X4(U8(0xdd), r[8*h+4+j], r[8*h+j], odd[h])  // lanes 1, 3
			}
			for q, half := range [][2]reg.VecVirtual{even, odd} {
				out[4*q+j], out[4*(q+2)+j] = ZMM(), ZMM()
				VSHUFF32X4(U8(0x88), half[1], half[0], out[4*q+j])
				VSHUFF32X4(U8(0xdd), half[1], half[0], out[4*(q+2)+j])
			}
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
