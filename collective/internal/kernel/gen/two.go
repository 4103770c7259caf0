package main

import (
	"github.com/mmcloughlin/avo/ir"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Two ranks, the most frequent number on a host, sum two sources into one or two
// destinations. That has a loop of its own: the addresses stay in registers, and the
// lines of the second destination, which another core has written last, are fetched for
// writing before they are read. A line that is read first and stored to later is
// requested twice.
//
// Whole vectors are converted from f16. Halves of them would be quicker within a
// first-level cache, but whole ones are half as many instructions under way, which counts
// when the data come from another core: see "Sums of two f16" in docs/decisions.md.

const (
	twoBytes   = 256 // a round: as many as short offsets reach
	aheadBytes = 512 // distance to the line that is read

	// fetchMax is the bytes of a source from which a call fetches nothing: large sums are
	// slightly quicker without.
	fetchMax = 256 << 10
)

// ofTwo reports whether the kernel has the loop.
func (k kernel) ofTwo() bool { return k.o.name == sum.name && k.from == k.to }

// two writes the loop.
func (w *walk) two() {
	narrow := !w.wide
	vectors := twoBytes / (w.lanes * w.from.size)
	switch {
	case !narrow: // there are 32 registers
	case w.split: // two for each
		vectors = unroll / 2
	default:
		vectors = min(vectors, 8)
	}
	n, size := vectors*w.lanes, w.from.size
	x, y, first, second, fetched, limit := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	CMPQ(w.nsrcs, U8(2))
	JNE(LabelRef("several"))
	CMPQ(w.ndsts, U8(2))
	JG(LabelRef("several"))
	MOVQ(Mem{Base: w.srcs}, x)
	MOVQ(Mem{Base: w.srcs, Disp: header}, y)
	MOVQ(Mem{Base: w.dsts}, first)
	LEAQ(Mem{Base: w.at, Index: w.left, Scale: 1, Disp: -n}, limit)
	XORQ(second, second)
	XORQ(fetched, fetched)
	CMPQ(w.ndsts, U8(2))
	JNE(LabelRef("two"))
	MOVQ(Mem{Base: w.dsts, Disp: header}, second)
	CMPQ(w.left, U32(uint32(fetchMax/size)))
	JGE(LabelRef("two"))
	MOVQ(second, fetched)

	Label("two")
	CMPQ(w.left, U32(uint32(n)))
	JL(LabelRef("several"))
	TESTQ(fetched, fetched)
	JZ(LabelRef("two_fetched"))
	LEAQ(Mem{Base: w.at, Disp: aheadBytes / size}, reg.RAX)
	CMPQ(reg.RAX, limit)
	CMOVQGT(limit, reg.RAX)
	const middle = 128 // offsets of a byte are -128 to 127
	LEAQ(Mem{Base: fetched, Index: reg.RAX, Scale: uint8(size), Disp: middle}, reg.RAX)
	for at := 0; at < n*size; at += 64 {
		prefetchForWriting(at - middle)
	}
	Label("two_fetched")
	place := func(p reg.Register, u int) Mem {
		return Mem{Base: p, Index: w.at, Scale: uint8(size), Disp: u * w.lanes * size}
	}
	acc := make([][]vreg, vectors)
	for u := range acc {
		acc[u] = w.load(place(x, u), nil, w.sums(u))
	}
	for u := range acc {
		w.add(acc[u], place(y, u), nil)
	}
	out := w.result("two", acc)
	for u, v := range out {
		w.to.store(v, place(first, u), nil)
	}
	TESTQ(second, second)
	JZ(LabelRef("two_stored"))
	for u, v := range out {
		w.to.store(v, place(second, u), nil)
	}
	Label("two_stored")
	ADDQ(U32(uint32(n)), w.at)
	SUBQ(U32(uint32(n)), w.left)
	JMP(LabelRef("two"))
}

// prefetchForWriting is PREFETCHW off(AX), which neither avo nor Go's assembler has: 0F
// 0D /1, and the offset.
func prefetchForWriting(off int) {
	code := []byte{0x0f, 0x0d, 0x48, byte(off)}
	Commentf("PREFETCHW %d(AX)", off)
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{long(code)}, Inputs: []Op{reg.RAX}})
}

// long is four bytes of code.
func long(b []byte) U32 { return U32(b[0]) | U32(b[1])<<8 | U32(b[2])<<16 | U32(b[3])<<24 }
