#include "textflag.h"

// func coreNow() uint64
TEXT ·coreNow(SB), NOSPLIT, $0-8
	RDTSCP
	ANDL $0xfff, CX
	MOVQ CX, ret+0(FP)
	RET

// func hasCoreNow() bool
TEXT ·hasCoreNow(SB), NOSPLIT, $0-1
	MOVL  $0x80000000, AX
	XORL  CX, CX
	CPUID
	CMPL  AX, $0x80000001
	JCS   none
	MOVL  $0x80000001, AX
	XORL  CX, CX
	CPUID
	SHRL  $27, DX
	ANDL  $1, DX
	MOVB  DX, ret+0(FP)
	RET

none:
	MOVB $0, ret+0(FP)
	RET
