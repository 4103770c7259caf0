package main

import (
	"github.com/mmcloughlin/avo/ir"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// AVX512_BF16 rounds 32 float32 to bf16 at once, to the nearest, ties to even. But it
// takes subnormal numbers for 0 and keeps the payload of a NaN. So a round that has
// either is computed as on processors without the instruction.

// brainRegisters are the accumulators of elements of even and odd numbers, in turns. The
// encoding of the instruction, which is made here, has no bits for higher registers.
var brainRegisters = []reg.VecPhysical{reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7}

// unlike is the classes of VFPCLASSPS that the instruction rounds differently: quiet NaN,
// subnormal, signaling NaN.
const unlike = 0x01 | 0x20 | 0x80

// interleaved is the source of each 16-bit element of a vector whose lower half is the
// elements of even numbers.
var interleaved Mem

func interleave() {
	interleaved = GLOBL("interleaved", 8|16) // RODATA, NOPTR
	for i := range 32 {
		DATA(2*i, U16(i/2+i%2*16))
	}
}

// brains rounds the accumulators.
func (w *walk) brains(label string, acc [][]vreg) []vreg {
	out := make([]vreg, len(acc))
	// a branch for each two, hardly ever taken, is quicker than merging all masks
	for u, v := range acc {
		even, odd := K(), K()
		VFPCLASSPSZ(U8(unlike), v[0], even)
		VFPCLASSPSZ(U8(unlike), v[1], odd)
		KORTESTW(odd, even)
		JNZ(LabelRef(label + "_unlike"))
		out[u] = v[0]
	}
	for u, v := range acc {
		toBrain(v[1], v[0])
		VPERMW(out[u], w.order, out[u])
	}
	Label(label + "_rounded")
	w.seldom = append(w.seldom, func() {
		Label(label + "_unlike")
		w.quiet(label+"_numbers", acc)
		for u, v := range acc {
			VMOVDQU32(w.join(v[0], v[1]), out[u])
		}
		JMP(LabelRef(label + "_rounded"))
	})
	return out
}

// toBrain is VCVTNE2PS2BF16 even, odd, even, which neither avo nor Go's assembler has:
// EVEX.512.F2.0F38.W0 72 /r. It rounds the old even to the lower half of even.
func toBrain(odd, even vreg) {
	number := func(v vreg) byte {
		for i, r := range brainRegisters {
			if r == v {
				return byte(i)
			}
		}
		panic("not one of the registers that the encoding is for")
	}
	o, e := number(odd), number(even)
	code := []byte{0x62, 0xf2, (^o&15)<<3 | 0x07, 0x48, 0x72, 0xc0 | e<<3 | e}
	Commentf("VCVTNE2PS2BF16 Z%d, Z%d, Z%d", e, o, e)
	in := []Op{even, odd}
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{long(code)}, Inputs: in, Outputs: []Op{even}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(code[4]) | U16(code[5])<<8}, Inputs: in, Outputs: []Op{even}})
}
