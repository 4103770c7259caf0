//go:build amd64 && !race

#include "textflag.h"

// func storeRelease(addr *uint64, v uint64)
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET

// func await(addr *uint64, want uint64, n int) bool
TEXT ·await(SB), NOSPLIT, $0-25
	MOVQ addr+0(FP), AX
	MOVQ want+8(FP), CX
	MOVQ n+16(FP), DX

look:
	CMPQ (AX), CX
	JEQ  come
	PAUSE
	DECQ DX
	JNZ  look
	MOVB $0, ret+24(FP)
	RET

come:
	MOVB $1, ret+24(FP)
	RET
