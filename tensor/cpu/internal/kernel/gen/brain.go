package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fewBrainRows is the most rows of a of a tile that reads b as it lies.
const fewBrainRows = 4

// brain writes the tiles of products of pairs of bfloat16, and what makes pairs.
func brain(s isa) {
	for vecs, rows := range s.tallest() {
		for mr := 1; mr <= rows; mr++ {
			s.tile(mr, vecs+1, false)
		}
	}
	for rows := 1; rows <= turnedRows; rows++ {
		turned(s, rows)
	}
	pairRows(s)
	for rows := 1; rows <= fewBrainRows; rows++ {
		fewBrain(s, rows)
	}
}

// addPairs adds the products of the bfloat16 of a and b, two by two, to sum, by an
// instruction that neither avo nor Go's assembler has: encodePairs replaces it.
func addPairs(a, b, sum reg.VecVirtual) {
	ops := []Op{a, b, sum}
	Instruction(&ir.Instruction{Opcode: "VDPBF16PS", Operands: ops, Inputs: ops, Outputs: []Op{sum}})
}

var pairsLine = regexp.MustCompile(`(?m)^\tVDPBF16PS +Z(\d+), +Z(\d+), +Z(\d+)$`)

// encodePairs replaces the VDPBF16PS of assembly by their bytes.
func encodePairs(text []byte) ([]byte, error) {
	text = pairsLine.ReplaceAllFunc(text, func(line []byte) []byte {
		var z [3]int
		for i, digits := range pairsLine.FindSubmatch(line)[1:] {
			z[i], _ = strconv.Atoi(string(digits)) // which the expression matched
		}
		c := encodeVDPBF16PS(z[0], z[1], z[2])
		return fmt.Appendf(nil, "\t// VDPBF16PS Z%d, Z%d, Z%d\n\tLONG $%#08x; WORD $%#04x", z[0], z[1], z[2],
			uint32(c[0])|uint32(c[1])<<8|uint32(c[2])<<16|uint32(c[3])<<24, uint16(c[4])|uint16(c[5])<<8)
	})
	if strings.Contains(pairsLine.ReplaceAllString(string(text), ""), "\tVDPBF16PS") {
		return nil, fmt.Errorf("a VDPBF16PS of other operands than three registers")
	}
	return text, nil
}

// encodeVDPBF16PS returns the code of VDPBF16PS, which is EVEX.512.F3.0F38.W0 52 /r, for
// registers in the order of Go's assembler: the last is dst. EVEX inverts the high bits
// of register numbers, and all of b.
func encodeVDPBF16PS(a, b, dst int) [6]byte {
	inverted := func(number, bit, to int) int { return (^number >> bit & 1) << to }
	const map38, prefixF3, whole = 2, 2, 2
	p0 := inverted(dst, 3, 7) | inverted(a, 4, 6) | inverted(a, 3, 5) | inverted(dst, 4, 4) | map38
	p1 := (^b&15)<<3 | 1<<2 | prefixF3
	p2 := whole<<5 | inverted(b, 4, 3)
	return [6]byte{0x62, byte(p0), byte(p1), byte(p2), 0x52, byte(0xc0 | dst&7<<3 | a&7)}
}

// pairOrder returns the places of pairs, for pair.
func pairOrder() (low, high reg.VecVirtual) {
	low, high = ZMM(), ZMM()
	VMOVDQU64(at("pairsLow"), low)
	VMOVDQU64(at("pairsHigh"), high)
	return low, high
}

// pair returns the pairs of numbers of two rows of 32.
func pair(x, y, low, high reg.VecVirtual) (l, h reg.VecVirtual) {
	l, h = ZMM(), ZMM()
	VMOVDQA64(low, l)
	VMOVDQA64(high, h)
	VPERMI2W(y, x, l)
	VPERMI2W(y, x, h)
	return l, h
}

// pairRows writes the kernel that makes a row of pairs of two rows.
func pairRows(s isa) {
	s.text("pairRows", "n int, dst *float32, x *uint16, y *uint16",
		"stores pairs, x[i] below y[i] in dst[i], for 0 <= i < n, a multiple of 32.")
	n, dst := Load(Param("n"), GP64()), Load(Param("dst"), GP64())
	x, y := Load(Param("x"), GP64()), Load(Param("y"), GP64())
	low, high := pairOrder()
	Label("each")
	v, w := ZMM(), ZMM()
	VMOVDQU64(Mem{Base: x}, v)
	VMOVDQU64(Mem{Base: y}, w)
	l, h := pair(v, w, low, high)
	VMOVDQU64(l, Mem{Base: dst})
	VMOVDQU64(h, Mem{Base: dst, Disp: 64})
	ADDQ(U8(64), x)
	ADDQ(U8(64), y)
	ADDQ(U32(128), dst)
	SUBQ(U8(32), n)
	JNZ(LabelRef("each"))
	s.ret()
}

// fewBrain writes the tile of a product of a few rows whose b lies by rows. Each element
// adds up in the order of the rows, whatever their number in a call.
func fewBrain(s isa, rows int) {
	s.text(fmt.Sprintf("few%d", rows), "n int, pairs int, a *uint16, rsA int, b *uint16, rsB int, c *float32, ldc int, add int",
		fmt.Sprintf("is c = a*b, or c += a*b if add is not 0, for %d rows of a, whose numbers lie one after another, pairs > 0 pairs of rows of b and n > 0 columns, a multiple of 32; strides in bytes.", rows))
	n, a := Load(Param("n"), GP64()), Load(Param("a"), GP64()).(reg.GPVirtual)
	rsA := Load(Param("rsA"), GP64()).(reg.GPVirtual)
	b, rsB := Load(Param("b"), GP64()), Load(Param("rsB"), GP64())
	c, ldc := Load(Param("c"), GP64()).(reg.GPVirtual), Load(Param("ldc"), GP64()).(reg.GPVirtual)
	add := Load(Param("add"), GP64())
	lines, to := rowAddress(a, rsA, rows), rowAddress(c, ldc, rows)
	low, high := pairOrder()
	acc := make([][2]reg.VecVirtual, rows)
	for i := range acc {
		acc[i] = [2]reg.VecVirtual{ZMM(), ZMM()}
	}
	p, left := GP64(), GP64()
	Label("columns")
	for i := range acc {
		s.clear(acc[i][0])
		s.clear(acc[i][1])
	}
	TESTQ(add, add)
	JZ(LabelRef("from"))
	for i := range acc {
		VMOVUPS(to[i], acc[i][0])
		VMOVUPS(to[i].Offset(64), acc[i][1])
	}
	Label("from")
	MOVQ(b, p)
	Load(Param("pairs"), left)
	Label("each")
	v, w := ZMM(), ZMM()
	VMOVDQU64(Mem{Base: p}, v)
	VMOVDQU64(Mem{Base: p, Index: rsB, Scale: 1}, w)
	l, h := pair(v, w, low, high)
	for i := range acc {
		of := ZMM()
		VPBROADCASTD(lines[i], of)
		addPairs(of, l, acc[i][0])
		addPairs(of, h, acc[i][1])
	}
	ADDQ(U8(4), a)
	LEAQ(Mem{Base: p, Index: rsB, Scale: 2}, p)
	DECQ(left)
	JNZ(LabelRef("each"))
	for i := range acc {
		VMOVUPS(acc[i][0], to[i])
		VMOVUPS(acc[i][1], to[i].Offset(64))
	}
	Load(Param("a"), a)
	ADDQ(U8(64), b)
	ADDQ(U32(128), c)
	SUBQ(U8(32), n)
	JNZ(LabelRef("columns"))
	s.ret()
}

// brainUnit writes the function that returns the unit of products of bfloat16.
func (s isa) brainUnit(b *strings.Builder) {
	fmt.Fprintf(b, "\n// brain%s returns the unit that computes products of bfloat16.\n", s.name)
	fmt.Fprintf(b, "func brain%[1]s() *brainUnit {\nunit := gemm%[1]s()\nunit.few = &fewUnit[float32]{turned: []turnedFunc[float32]{", s.name)
	for rows := 1; rows <= turnedRows; rows++ {
		fmt.Fprintf(b, "turned%d%s, ", rows, s.name)
	}
	fmt.Fprintf(b, "}}\nreturn &brainUnit{unit: unit, pairRows: pairRows%s, few: []fewBrainFunc{", s.name)
	for rows := 1; rows <= fewBrainRows; rows++ {
		fmt.Fprintf(b, "few%d%s, ", rows, s.name)
	}
	b.WriteString("}}\n}\n")
}
