package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose writes the transposition of blocks of numbers of width bytes, a vector of
// which is a column. Numbers of fewer bytes than those of s are joined, several rows at a
// time, to numbers of s.
func transpose(s isa, width int) {
	joined := s.numberBytes() / width
	kind, suffix := s.elem(), fmt.Sprint(s.lanes)
	if joined > 1 {
		kind = fmt.Sprintf("uint%d", 8*width)
		suffix = title(kind)
	}
	narrow(s, width, kind, suffix)
	if joined == 1 {
		flat(s, kind, suffix)
	}
	s.text("transpose"+suffix, fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, blocks int", kind),
		fmt.Sprintf("transposes blocks > 0 blocks of %d×%d numbers, side by side in src, one below the other in dst; strides in bytes.", joined*s.lanes, s.lanes))
	dst, ds := Load(Param("dst"), GP64()), Load(Param("ds"), GP64())
	src, ss := Load(Param("src"), GP64()), Load(Param("ss"), GP64())
	blocks := Load(Param("blocks"), GP64())
	Label("block")
	p := GP64()
	MOVQ(src, p)
	rows := make([]reg.VecVirtual, s.lanes)
	for i := range rows {
		rows[i] = s.vec()
		s.join(rows[i], p, ss, width, joined)
	}
	for _, v := range turn(s, rows) {
		VMOVUPS(v, Mem{Base: dst})
		ADDQ(ds, dst)
	}
	ADDQ(U8(s.lanes*width), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	s.ret()
}

// narrow writes the transposition of rows that are shorter than a vector. It loads whole
// vectors of them, and stores the columns that count.
func narrow(s isa, width int, kind, suffix string) {
	joined := s.numberBytes() / width
	s.text("narrow"+suffix, fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, blocks int, cols int", kind),
		fmt.Sprintf("transposes blocks > 0 blocks of %d×cols numbers, one below the other in src, of which it reads %d columns, side by side in dst; 0 < cols ≤ %d, strides in bytes.", joined*s.lanes, s.lanes, s.lanes))
	dst, ds := Load(Param("dst"), GP64()), Load(Param("ds"), GP64())
	src, ss := Load(Param("src"), GP64()).(reg.GPVirtual), Load(Param("ss"), GP64())
	blocks, cols := Load(Param("blocks"), GP64()), Load(Param("cols"), GP64())
	Label("block")
	rows := make([]reg.VecVirtual, s.lanes)
	for i := range rows {
		rows[i] = s.vec()
		s.join(rows[i], src, ss, width, joined)
	}
	to, left := GP64(), GP64()
	MOVQ(dst, to)
	MOVQ(cols, left)
	for i, v := range turn(s, rows) {
		VMOVUPS(v, Mem{Base: to})
		if i+1 < s.lanes {
			DECQ(left)
			JZ(LabelRef("next"))
			ADDQ(ds, to)
		}
	}
	Label("next")
	ADDQ(U8(s.bytes()), dst)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	s.ret()
}

// flat writes the transposition of fewer rows than a vector has numbers. It loads the
// last row again in place of others, for lanes that are not stored.
func flat(s isa, kind, suffix string) {
	s.text("flat"+suffix, fmt.Sprintf("dst *%[1]s, ds int, src *%[1]s, ss int, blocks int, rows int", kind),
		fmt.Sprintf("transposes blocks > 0 blocks of rows×%d numbers, side by side in src, one below the other in dst; 0 < rows ≤ %d, strides in bytes.", s.lanes, s.lanes))
	dst, ds := Load(Param("dst"), GP64()), Load(Param("ds"), GP64())
	src, ss := Load(Param("src"), GP64()), Load(Param("ss"), GP64())
	blocks, count := Load(Param("blocks"), GP64()), Load(Param("rows"), GP64())
	lanes := GP64()
	MOVQ(count, lanes)
	stored := s.newTail(lanes, 1)
	none := GP64()
	XORQ(none, none)
	Label("block")
	p, left, step := GP64(), GP64(), GP64()
	MOVQ(src, p)
	MOVQ(count, left)
	MOVQ(ss, step)
	rows := make([]reg.VecVirtual, s.lanes)
	for i := range rows {
		rows[i] = s.vec()
		VMOVUPS(Mem{Base: p}, rows[i])
		if i+1 < s.lanes {
			DECQ(left)
			CMOVQEQ(none, step)
			ADDQ(step, p)
		}
	}
	for _, v := range turn(s, rows) {
		stored.store(0, v, Mem{Base: dst})
		ADDQ(ds, dst)
	}
	ADDQ(U8(s.bytes()), src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	s.ret()
}

// join loads the numbers of width bytes of as many rows as v has room for, the numbers of
// one column beside each other, and moves p to the next row.
func (s isa) join(v reg.VecVirtual, p reg.GPVirtual, ss reg.Register, width, rows int) {
	if rows == 1 {
		VMOVUPS(Mem{Base: p}, v)
		ADDQ(ss, p)
		return
	}
	widen := map[int]func(...Op){1: VPMOVZXBD, 2: VPMOVZXWD}[width]
	widen(Mem{Base: p}, v)
	ADDQ(ss, p)
	for i := 1; i < rows; i++ {
		t := s.vec()
		widen(Mem{Base: p}, t)
		ADDQ(ss, p)
		VPSLLD(U8(8*width*i), t, t)
		if s.wide {
			VPORD(t, v, v)
		} else {
			VPOR(t, v, v)
		}
	}
}

// turn returns the columns of as many rows as a vector has numbers. It changes the
// registers of the rows.
func turn(s isa, r []reg.VecVirtual) []reg.VecVirtual {
	if s.double {
		pairs(s, r, VUNPCKLPD, VUNPCKHPD)
	} else {
		quads(s, r)
	}
	if !s.wide {
		return twoLanes(r)
	}
	// Column n*q+j is lane q of r[j], r[n+j], r[2*n+j], r[3*n+j].
	out, n := make([]reg.VecVirtual, len(r)), len(r)/4
	for j := range n {
		for q, v := range fourLanes(r[j], r[n+j], r[2*n+j], r[3*n+j]) {
			out[n*q+j] = v
		}
	}
	return out
}

// pairs interleaves the numbers of two rows at a time: vector 2*i+j holds, in each
// 128-bit lane, half j of the lane of rows 2i and 2i+1.
func pairs(s isa, r []reg.VecVirtual, low, high func(...Op)) {
	for i := 0; i < len(r); i += 2 {
		lo := s.vec()
		low(r[i+1], r[i], lo)
		high(r[i+1], r[i], r[i+1])
		r[i] = lo
	}
}

// quads interleaves four rows at a time: vector 4*i+j holds, in each 128-bit lane, column
// j of the lane of rows 4i to 4i+3. It works within the registers of the rows.
func quads(s isa, r []reg.VecVirtual) {
	pairs(s, r, VUNPCKLPS, VUNPCKHPS)
	for i := 0; i < len(r); i += 4 {
		c0, c2 := s.vec(), s.vec()
		VUNPCKLPD(r[i+2], r[i], c0)
		VUNPCKHPD(r[i+2], r[i], r[i+2])
		VUNPCKLPD(r[i+3], r[i+1], c2)
		VUNPCKHPD(r[i+3], r[i+1], r[i+3])
		r[i], r[i+1], r[i+2] = c0, r[i+2], c2
	}
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

// twoLanes returns vectors of the 128-bit lanes of r, whose registers it changes: the
// lower lanes of vectors that are half of r apart, then the upper ones.
func twoLanes(r []reg.VecVirtual) []reg.VecVirtual {
	out := make([]reg.VecVirtual, len(r))
	half := len(r) / 2
	for j := range half {
		lo := YMM()
		VPERM2F128(U8(0x20), r[half+j], r[j], lo)
		VPERM2F128(U8(0x31), r[half+j], r[j], r[half+j])
		out[j], out[half+j] = lo, r[half+j]
	}
	return out
}
