package main

import (
	"github.com/mmcloughlin/avo/ir"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// copies writes the ways to copy that Go's own copy does not have.
func copies() {
	TEXT("copyString", NOSPLIT, "func(dst, src *byte, n int)")
	Pragma("noescape")
	Doc("copyString copies n bytes by the processor's string instruction.")
	Load(Param("dst"), reg.RDI)
	Load(Param("src"), reg.RSI)
	Load(Param("n"), reg.RCX)
	for _, opcode := range []string{"CLD", "REP", "MOVSB"} { // of which avo knows nothing
		Instruction(&ir.Instruction{Opcode: opcode})
	}
	RET()

	for _, s := range []isa{avx512, avx2} {
		TEXT("copyStream"+s.name, NOSPLIT, "func(dst, src *byte, n int)")
		Pragma("noescape")
		Doc("copyStream" + s.name + " copies n bytes past the caches: n > 0 is a multiple of 256 and dst of 64.")
		dst, src, n := GP64(), GP64(), GP64()
		Load(Param("dst"), dst)
		Load(Param("src"), src)
		Load(Param("n"), n)
		Label("loop")
		v := make([]vreg, 256/s.bytes)
		for i := range v {
			v[i] = s.vec()
			VMOVUPS(Mem{Base: src, Disp: i * s.bytes}, v[i])
		}
		for i := range v {
			VMOVNTPS(v[i], Mem{Base: dst, Disp: i * s.bytes})
		}
		ADDQ(U32(256), src)
		ADDQ(U32(256), dst)
		SUBQ(U32(256), n)
		JNZ(LabelRef("loop"))
		SFENCE()
		VZEROUPPER()
		RET()
	}
}
