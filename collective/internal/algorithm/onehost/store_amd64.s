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

// func give(mine *half, mark, word uint64)
TEXT ·give(SB), NOSPLIT, $0-24
	MOVQ mine+0(FP), AX
	MOVQ mark+8(FP), CX
	MOVQ word+16(FP), DX
	MOVQ DX, 8(AX)
	MOVQ CX, (AX)
	RET

// func take(theirs *half, mark uint64, n, rest int) (uint64, bool)
TEXT ·take(SB), NOSPLIT, $0-41
	MOVQ theirs+0(FP), BX
	MOVQ mark+8(FP), CX
	MOVQ n+16(FP), SI
	MOVQ rest+24(FP), DI

look:
	CMPQ (BX), CX
	JEQ  come
	MOVQ DI, R8

pause:
	PAUSE
	DECQ R8
	JNZ  pause
	DECQ SI
	JNZ  look
	MOVB $0, ret1+40(FP)
	RET

come:
	MOVQ 8(BX), DX
	MOVQ DX, ret+32(FP)
	MOVB $1, ret1+40(FP)
	RET

// func claim(h *half)
TEXT ·claim(SB), NOSPLIT, $0-8
	MOVQ h+0(FP), AX
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	RET

// func fetch(b []byte)
TEXT ·fetch(SB), NOSPLIT, $0-24
	MOVQ b_base+0(FP), AX
	MOVQ b_len+8(FP), CX

next:
	BYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (AX)
	ADDQ $64, AX
	SUBQ $64, CX
	JG   next
	RET

// func demote(b []byte)
TEXT ·demote(SB), NOSPLIT, $0-24
	MOVQ b_base+0(FP), AX
	MOVQ b_len+8(FP), CX

next:
	BYTE $0x0f; BYTE $0x1c; BYTE $0x00 // CLDEMOTE (AX), which is a NOP where there is none
	ADDQ $64, AX
	SUBQ $64, CX
	JG   next
	RET
