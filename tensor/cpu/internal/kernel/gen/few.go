package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// axpyRows is the number of rows of b that axpys adds at a time.
const axpyRows = 8

// turnedRows is the most rows of tiles that turn b.
const turnedRows = 4

// few writes the kernels of products of a few rows, which read b once, as it lies. Their
// elements add up in the order of the other tiles and have the same bits.
func few(s isa) {
	axpys(s, axpyRows)
	axpys(s, 1)
	if s.wide {
		for rows := 1; rows <= turnedRows; rows++ {
			turned(s, rows)
		}
	}
}

// turned writes the tile of a product whose b lies by columns: blocks of it are
// transposed in registers.
func turned(s isa, rows int) {
	s.text(fmt.Sprintf("turned%d", rows), "blocks int, a *float32, rsA int, b *float32, csB int, c *float32, ldc int, add int",
		fmt.Sprintf("is c = a*b, or c += a*b if add is not 0, for %d rows of a, whose numbers lie one after another as those of %d columns of b do, and blocks of %d of them; strides in bytes.", rows, s.lanes, s.lanes))
	blocks := Load(Param("blocks"), GP64())
	a, rsA := Load(Param("a"), GP64()).(reg.GPVirtual), Load(Param("rsA"), GP64()).(reg.GPVirtual)
	b, csB := Load(Param("b"), GP64()), Load(Param("csB"), GP64())
	lines := rowAddress(a, rsA, rows)
	acc := make([]reg.VecVirtual, rows)
	for i := range acc {
		acc[i] = s.zero()
	}
	Label("block")
	p := GP64()
	MOVQ(b, p)
	v := make([]reg.VecVirtual, s.lanes)
	for i := range v {
		v[i] = s.vec()
		VMOVUPS(Mem{Base: p}, v[i])
		PREFETCHT0(Mem{Base: p, Disp: 8 * s.bytes()})
		ADDQ(csB, p)
	}
	for q, column := range turn(s, v) {
		for i := range acc {
			if s.pairs {
				of := s.vec()
				s.broadcast(lines[i].Offset(4*q), of)
				addPairs(of, column, acc[i])
			} else {
				VFMADD231PS_BCST(lines[i].Offset(4*q), column, acc[i])
			}
		}
	}
	ADDQ(U8(s.bytes()), a)
	ADDQ(U8(s.bytes()), b)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	c, ldc, add := Load(Param("c"), GP64()), Load(Param("ldc"), GP64()), Load(Param("add"), GP64())
	TESTQ(add, add)
	JZ(LabelRef("set"))
	for i, line := range rowAddress(c.(reg.GPVirtual), ldc.(reg.GPVirtual), rows) {
		VADDPS(line, acc[i], acc[i])
	}
	Label("set")
	for i := range acc {
		VMOVUPS(acc[i], Mem{Base: c})
		if i+1 < rows {
			ADDQ(ldc, c)
		}
	}
	s.ret()
}

func log2(n int) int {
	bits := 0
	for ; n > 1; n /= 2 {
		bits++
	}
	return bits
}

// axpys writes the kernel of a product of one row whose b lies by rows. Each element adds
// up in the order of the rows, whatever their number in a call.
func axpys(s isa, rows int) {
	s.text(fmt.Sprintf("axpys%d", rows), "n int, a *float32, csA int, b *float32, rsB int, c *float32, add int",
		fmt.Sprintf("is c = a*b, or c += a*b if add is not 0, for 1 row of a, %d rows of b and n > 0 columns; strides in bytes.", rows))
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	a, csA := Load(Param("a"), GP64()), Load(Param("csA"), GP64())
	b, rsB := Load(Param("b"), GP64()).(reg.GPVirtual), Load(Param("rsB"), GP64()).(reg.GPVirtual)
	av := make([]reg.VecVirtual, rows)
	for i := range av {
		av[i] = s.vec()
		s.broadcast(Mem{Base: a}, av[i])
		if i+1 < rows {
			ADDQ(csA, a)
		}
	}
	lines := rowAddress(b, rsB, rows)
	c, add := Load(Param("c"), GP64()), Load(Param("add"), GP64())
	vectors, sum := GP64(), s.vec()
	MOVQ(n, vectors)
	SHRQ(U8(log2(s.lanes)), vectors)
	JZ(LabelRef("rest"))
	Label("each")
	s.clear(sum)
	TESTQ(add, add)
	JZ(LabelRef("sum"))
	VMOVUPS(Mem{Base: c}, sum)
	Label("sum")
	for i := range av {
		VFMADD231PS(lines[i], av[i], sum)
	}
	VMOVUPS(sum, Mem{Base: c})
	ADDQ(U8(s.bytes()), b)
	ADDQ(U8(s.bytes()), c)
	DECQ(vectors)
	JNZ(LabelRef("each"))
	Label("rest")
	ANDQ(U8(s.lanes-1), n)
	JZ(LabelRef("end"))
	t := s.newTail(n, 1)
	s.clear(sum)
	TESTQ(add, add)
	JZ(LabelRef("last"))
	t.load(0, Mem{Base: c}, sum)
	Label("last")
	for i := range av {
		bv := s.vec()
		t.load(0, lines[i], bv)
		VFMADD231PS(bv, av[i], sum)
	}
	t.store(0, sum, Mem{Base: c})
	Label("end")
	s.ret()
}
